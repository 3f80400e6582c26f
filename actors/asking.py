"""What `corral ask` asks: an assistant far away, or one in this process."""

from collections.abc import Mapping
from typing import Any, Protocol

from sqlassist.messages import Emit, Event, Question, Refusal


class AskError(Exception):
    """No answer can be had: the text says what is wrong and what to do. It is nobody's question that is to blame."""


class Asking(Protocol):
    """One session with an assistant."""

    @property
    def whose(self) -> str:
        """Who is answered, and from whose data."""
        ...

    async def ask(self, question: Question, emit: Emit) -> Event:
        """Have a question answered; every event is emitted, and the last one is returned too.

        Cancelling this cancels the question. Raises `AskError`.
        """
        ...

    async def review(self, of: str, comment: str, correction_sql: str) -> str | Refusal:
        """Have somebody look at the answer to an earlier question; returns the id of the review. Raises `AskError`."""
        ...

    async def history(self, limit: int) -> tuple[Mapping[str, Any], ...]:
        """The newest questions of this user, newest first. Raises `AskError`."""
        ...
