"""An assistant in this process, asked without any server: one session, and the history of its user."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
import trio

from actors.answering import Answering
from actors.question_history import QuestionHistory
from sqlassist.messages import Asker, Emit, Event, Question, Refusal, Stage, Verb


@attrs.define(eq=False)
class EmbeddedAsking:
    """See `actors.asking.Asking`."""

    answering: Answering
    asker: Asker
    kept: QuestionHistory
    _conversation: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._conversation = self.answering.conversation(self.asker)

    @property
    def whose(self) -> str:
        """See `Asking`."""
        return f"{self.asker.user} of {self.asker.tenant}, in this process"

    async def ask(self, question: Question, emit: Emit) -> Event:
        """See `Asking`."""
        began = trio.current_time()
        last = Event(Stage.CANCELLED)
        try:
            last = await self.answering.answer(question, self._conversation, emit)
        finally:
            text = question.choice if question.verb is Verb.CHOOSE else question.text
            entry = {
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "id": question.id,
                "verb": question.verb.value,
                "text": text,
                "stage": last.stage.value,
                "ms": round((trio.current_time() - began) * 1000, 1),
            }
            with trio.CancelScope(shield=True):  # one short line in a file
                await self.kept.append(self.asker, entry)
        return last

    async def review(self, of: str, comment: str, correction_sql: str) -> str | Refusal:
        """See `Asking`."""
        return await self.answering.review(self.asker, self._conversation, of, comment, correction_sql)

    async def history(self, limit: int) -> tuple[Mapping[str, Any], ...]:
        """See `Asking`."""
        return await self.kept.newest(self.asker, limit)
