"""Answers for pinned questions: numbers of one column, as a test says."""

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from sqlassist.messages import Asker, Emit, Event, Question, Refusal, Stage

ANSWERED = Event(Stage.ANSWER, {"text": "done", "tokens": {"input": 5, "output": 1}})
CHART = {"data": {"values": [{"n": 1}]}, "mark": "bar", "encoding": {"x": {"field": "n"}}}


@attrs.define(eq=False)
class NumberAnswering:
    """Answers with `numbers`, unless told to wait, to crash or to end in another way."""

    numbers: list[Any] = attrs.field(factory=lambda: [1])
    last: Event = attrs.field(factory=lambda: ANSWERED)
    waits: bool = False
    crashes: bool = False
    asked: list[tuple[Asker, Question]] = attrs.field(factory=list)
    cancelled: int = 0

    def conversation(self, asker: Asker) -> Asker:
        return asker

    def versions(self, asker: Asker) -> Mapping[str, str]:
        return {}

    async def answer(self, question: Question, conversation: Any, emit: Emit) -> Event:
        self.asked.append((conversation, question))
        if self.crashes:
            raise RuntimeError("a mistake")
        if self.waits:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                self.cancelled += 1
                raise
        await emit(Event(Stage.SQL, {"sql": "SELECT n", "author": "model", "attempt": 1}))
        rows = [[f"server {index}", number] for index, number in enumerate(self.numbers)]
        await emit(Event(Stage.ROWS, {"columns": ["server", "n"], "rows": rows, "truncated": False, "sql": "SELECT n"}))
        await emit(Event(Stage.SUMMARY, {"text": f"{len(rows)} servers"}))
        await emit(Event(Stage.CHART, {"spec": CHART}))
        await emit(self.last)
        return self.last

    async def review(
        self, asker: Asker, conversation: Any, question_id: str, comment: str, correction_sql: str
    ) -> str | Refusal:
        raise NotImplementedError
