"""Answers that cost nothing: the same events for every question, so that what is measured is all round them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sqlassist.messages import Asker, Emit, Event, Question, Refusal, Stage

QUESTIONS = ("new players per day last week", "revenue by server yesterday", "上周每天的新增玩家", "本月各渠道收入")

_ROWS = [[f"2026-01-{day:02}", 100 + day] for day in range(1, 15)]
_EVENTS = (
    Event(Stage.INTENT, {"route": "metric", "complexity": "simple", "language": "en", "why": "the same for all"}),
    Event(Stage.SCOPE, {"area": "players", "source": "sample", "tables": [{"name": "players", "why": "named"}]}),
    Event(Stage.SQL, {"sql": "SELECT day, count(*) FROM players GROUP BY day", "author": "metric", "attempt": 1}),
    Event(Stage.CHECK, {"verdict": "pass", "code": "", "hint": "", "attempt": 1}),
    Event(Stage.ROWS, {"columns": ["day", "n"], "types": ["date", "integer"], "rows": _ROWS, "truncated": False}),
    Event(Stage.SUMMARY, {"text": "14 days"}),
    Event(Stage.ANSWER, {"route": "metric", "rows": len(_ROWS), "ms": 0.0, "text": "14 days"}),
)


class SampleAnswering:
    """See `actors.answering.Answering`."""

    def conversation(self, asker: Asker) -> Asker:
        """Nothing is remembered."""
        return asker

    def versions(self, asker: Asker) -> Mapping[str, str]:
        """There are none."""
        del asker
        return {}

    async def answer(self, question: Question, conversation: Any, emit: Emit) -> Event:
        """Emit the events."""
        del question, conversation
        for event in _EVENTS:
            await emit(event)
        return _EVENTS[-1]

    async def review(
        self, asker: Asker, conversation: Any, question_id: str, comment: str, correction_sql: str
    ) -> str | Refusal:
        """Nobody reviews."""
        del asker, conversation, question_id, comment, correction_sql
        return Refusal("no_review", "", "a benchmark has no reviewers")


@asynccontextmanager
async def open_answering() -> AsyncIterator[SampleAnswering]:
    """For `corral bench assistant --answering`."""
    yield SampleAnswering()
