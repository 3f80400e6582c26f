"""Answers by script: the text of a question says what happens to it."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import trio

from sqlassist.messages import Asker, Emit, Event, Question, Refusal, Stage, Verb

ANSWER = Event(Stage.ANSWER, {"route": "metric", "text": "42", "tokens": {"input": 100, "cached": 40, "output": 20}})


@attrs.define(eq=False)
class ScriptedAnswering:
    """The first word of a question is what happens: `answer`, `wait`, `crash`, `mute`, `late`, `refuse`, `clarify`,

    `nan`, `fail`, `events N`, `rows BYTES` (one event) or `flood N BYTES` (N events).
    """

    asked: list[tuple[Asker, Question]] = attrs.field(factory=list)
    cancelled: list[str] = attrs.field(factory=list)
    reviews: list[tuple[str, str, str]] = attrs.field(factory=list)
    emitted: dict[str, int] = attrs.field(factory=dict)
    """Events of each question that were taken."""

    def conversation(self, asker: Asker) -> list[Any]:
        return [asker]

    def versions(self, asker: Asker) -> Mapping[str, str]:
        return {"schema": f"schema-of-{asker.tenant}", "layer": "1"}

    async def answer(self, question: Question, conversation: Any, emit: Emit) -> Event:
        self.asked.append((conversation[0], question))
        conversation.append(question.id)
        last = await self._script(question, conversation, emit)
        await self._emit(question, emit, last)
        if question.text == "late":
            await emit(Event(Stage.SUMMARY))
        return last

    async def review(
        self, asker: Asker, conversation: Any, question_id: str, comment: str, correction_sql: str
    ) -> str | Refusal:
        if question_id not in conversation:
            return Refusal("no_such_question", "", "this session has had no such question")
        if comment == "crash":
            raise RuntimeError("the reviews are broken")
        self.reviews.append((question_id, comment, correction_sql))
        return f"review-{len(self.reviews)}"

    async def _script(self, question: Question, conversation: Any, emit: Emit) -> Event:
        if question.verb is not Verb.ASK:
            return Event(Stage.ANSWER, {"text": f"{question.verb} {question.of}{question.choice}{question.sql}"})
        await self._emit(question, emit, Event(Stage.INTENT, {"route": "metric", "why": "scripted"}))
        word, *numbers = question.text.split()
        counts = [int(number) for number in numbers if number.isdecimal()]
        match word:
            case "wait":
                try:
                    await trio.sleep_forever()
                except trio.Cancelled:
                    self.cancelled.append(question.id)
                    raise
            case "crash":
                raise RuntimeError("a mistake")
            case "nan":
                await emit(Event(Stage.ROWS, {"rows": [[float("nan")]]}))
            case "refuse":
                return Event(Stage.REFUSAL, {"code": "outside_scope", "text": "not yours", "needs_model": False})
            case "fail":
                return Event(Stage.FAILED, {"code": "database_away", "text": "away", "retry_after": 3.0})
            case "clarify":
                choices = [{"id": "c1", "label": "by day"}, {"id": "c2", "label": "by week"}]
                return Event(Stage.CLARIFICATION, {"text": "which?", "choices": choices})
            case _:
                for event in _events(word, *counts):
                    await self._emit(question, emit, event)
        return ANSWER

    async def _emit(self, question: Question, emit: Emit, event: Event) -> None:
        if question.text == "mute" and event.is_last:
            return
        await emit(event)
        self.emitted[question.id] = self.emitted.get(question.id, 0) + 1


def _events(word: str, count: int = 0, size: int = 0) -> Iterator[Event]:
    match word:
        case "events" | "flood":
            for number in range(count):
                yield Event(Stage.DELTA, {"text": str(number) + "x" * size, "channel": "sql"})
        case "rows":
            yield Event(Stage.ROWS, {"rows": [["x" * count]]})
        case "table":
            days = [["2026-01-01", 3, "a"], ["2026-01-02", 5, "b"], ["2026-01-03", None, "c"]]
            data = {"columns": ["day", "plays", "note"], "types": ["date", "integer", "text"], "rows": days}
            yield Event(Stage.ROWS, {**data, "truncated": False, "ms": 1.5})
            yield Event(Stage.CHART, {"spec": {"mark": "bar", "data": {"values": []}}})
            yield Event(Stage.SUMMARY, {"text": "8 plays"})
