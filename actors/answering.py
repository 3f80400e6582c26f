"""What a session of the assistant asks of whatever answers: the pipeline, in this process or in a test."""

from collections.abc import Mapping
from typing import Any, Protocol

from sqlassist.messages import Asker, Emit, Event, Question, Refusal


class Answering(Protocol):
    """Answers questions of many people of many tenants at a time."""

    def conversation(self, asker: Asker) -> Any:
        """What is remembered of one session: follow-ups and choices. Kept by the session, whatever it is."""
        ...

    def versions(self, asker: Asker) -> Mapping[str, str]:
        """Versions of what the asker is answered from: `schema` and `layer`, where there are."""
        ...

    async def answer(self, question: Question, conversation: Any, emit: Emit) -> Event:
        """Answer one question.

        Args:
            question: Its ids are those of one session.
            conversation: What `conversation` gave for that session.
            emit: Gets every event in order, the last one exactly once. It waits where the reader is slow. Nothing may
                be emitted after a cancellation.

        Returns:
            The last event. Its `tokens`, where a model was asked, is `{"input": n, "cached": n, "output": n}`.
        """
        ...

    async def review(
        self, asker: Asker, conversation: Any, question_id: str, comment: str, correction_sql: str
    ) -> str | Refusal:
        """Put the answer to a question of this conversation before the reviewers; returns the id of the review."""
        ...
