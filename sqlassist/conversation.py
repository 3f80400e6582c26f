"""What one session remembers: for follow-ups, choices, reviews and explanations. It never leaves its tenant."""

from collections import OrderedDict

import attrs

from sqlassist.messages import Asker
from sqlassist.metric_query import MetricQuery

MAX_TURNS = 50  # of one session; older questions can be asked again


@attrs.frozen
class Choice:
    """One way to go on after a clarification. Its SQL has passed the guard, and passes it again when it is chosen."""

    id: str
    label: str
    sql: str
    source: str
    query: MetricQuery | None = None


@attrs.frozen
class Turn:
    """One question that is over."""

    id: str
    question: str
    """As it was asked."""
    standalone: str
    """What it was understood as, follow-ups completed."""
    language: str
    stage: str
    """How it ended: the last event's stage."""
    route: str = ""
    sql: str = ""
    source: str = ""
    query: MetricQuery | None = None
    rows: int = 0
    text: str = ""
    choices: tuple[Choice, ...] = ()


@attrs.define(eq=False)
class Conversation:
    """The turns of one session, oldest first."""

    asker: Asker
    routing_key: str
    """All prompts of a session go to one engine while it lives."""
    _turns: "OrderedDict[str, Turn]" = attrs.field(factory=OrderedDict, init=False)

    def remember(self, turn: Turn) -> None:
        """Keep a turn; the oldest ones go."""
        self._turns.pop(turn.id, None)
        self._turns[turn.id] = turn
        while len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)

    def turn(self, question_id: str) -> Turn | None:
        """A question of this session, unless it is too long ago."""
        return self._turns.get(question_id)

    def turns(self) -> tuple[Turn, ...]:
        """All, oldest first."""
        return tuple(self._turns.values())

    @property
    def previous_query(self) -> MetricQuery | None:
        """The latest metric query that was answered: what a follow-up is completed from."""
        return next((turn.query for turn in reversed(self._turns.values()) if turn.query is not None), None)
