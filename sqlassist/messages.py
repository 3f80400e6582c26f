"""What passes between the stages of the assistant, and what it says while it answers. Values only."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

import attrs

from runtime.ids import TenantId


@attrs.frozen
class Draft:
    """SQL as somebody wrote it: a model, or a person. It is data until the guard has made a `CheckedQuery` of it."""

    sql: str
    author: str = "model"
    """`model`, `person`, `verified` or `metric`: for the audit, never for a decision."""


@attrs.frozen
class Refusal:
    """Why a text was not taken. An expected answer, so a value and no exception."""

    code: str
    """Stable, in `snake_case`: for metrics, for tests, and for the decision whether to ask again."""
    where: str
    """The piece of the text that is meant, cut to 80 characters; empty where it is the whole."""
    hint: str
    """What a model or a person can do about it. It names nothing that the tenant may not see."""

    def __str__(self) -> str:
        return f"{self.code}: {self.hint}" + (f" (at {self.where})" if self.where else "")


@attrs.frozen
class Asker:
    """Who asks. It comes from the handshake and never from a text."""

    user: str
    tenant: TenantId
    roles: frozenset[str] = frozenset()
    """`viewer`, `operator`, `reviewer`, `admin`."""


class Verb(StrEnum):
    """What is wanted of the assistant."""

    ASK = "ask"
    """Answer `text`."""
    CHOOSE = "choose"
    """Run the choice `choice` of the clarification of the question `of`."""
    FIX = "fix"
    """Mend `sql`; `text` says what is wrong with it, often a database's error."""
    EXPLAIN = "explain"
    """Say in words what `sql`, or the answer to the question `of`, does."""


@attrs.frozen
class Question:
    """One request to the assistant."""

    id: str
    """Unique in its session; `[A-Za-z0-9._-]{1,64}`."""
    text: str = ""
    verb: Verb = Verb.ASK
    sql: str = ""
    of: str = ""
    """The id of an earlier question of this session."""
    choice: str = ""
    think: bool | None = None
    """Whether the model is to think before it writes; None leaves that to the router."""


class Stage(StrEnum):
    """What an event is about, in the order in which they come. Only the last group ends a question."""

    RESOLVED = "resolved"
    """`text`: the standalone question that a follow-up was understood as."""
    INTENT = "intent"
    """`route`, `complexity` (`simple` or `complex`), `language` (`en` or `zh`), `why`."""
    SCOPE = "scope"
    """`area`, `source`, `tables`: a list of `{name, why}`."""
    RETRIEVED = "retrieved"
    """`examples`, `terms`, `values`, `schema` (`slice`, `whole` or `none`): what generating starts from."""
    DELTA = "delta"
    """`text`: a piece of what the model writes; `channel`: `thought` or `sql`."""
    SQL = "sql"
    """`sql`, `author`, `attempt`, and with `metric` as author `query`: the metric query in words."""
    CHECK = "check"
    """`verdict` (`pass` or `refuse`), `code`, `hint`, `attempt`."""
    ROWS = "rows"
    """`columns`, `types`, `rows`, `truncated`, `ms`, `cached`, `sql`."""
    SUMMARY = "summary"
    """`text`"""
    CHART = "chart"
    """`spec`: a Vega-Lite specification with its data."""

    ANSWER = "answer"
    """The end: `route`, `sql`, `source`, `rows` (how many), `ms`, `retries`, `tokens`, `cached`, `text`."""
    CLARIFICATION = "clarification"
    """The end: `text`, `choices`: two to four of `{id, label}`, each of them a query that passed the guard."""
    REFUSAL = "refusal"
    """The end: `code`, `text`; `needs_model` is true where a model would have been asked."""
    FAILED = "failed"
    """The end: `code`, `text`, and `retry_after` in seconds where waiting helps. Not the question's fault."""
    CANCELLED = "cancelled"
    """The end, on request."""


LAST_STAGES = frozenset({Stage.ANSWER, Stage.CLARIFICATION, Stage.REFUSAL, Stage.FAILED, Stage.CANCELLED})
"""Exactly one of these ends every question."""


@attrs.frozen
class Event:
    """Something that whoever asked sees while a question is answered."""

    stage: Stage
    data: Mapping[str, Any] = attrs.field(factory=dict)
    """JSON values only."""

    @property
    def is_last(self) -> bool:
        """True when the question is over."""
        return self.stage in LAST_STAGES


Emit = Callable[[Event], Awaitable[None]]
"""Takes an event on its way to whoever asked; waits where they read slowly."""
