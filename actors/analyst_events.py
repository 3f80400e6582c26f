"""The newest events of a session, kept until they are known to have been seen: what a reconnect is given again."""

from collections import deque

import attrs


@attrs.define(eq=False)
class KeptEvents:
    """Texts numbered from 1 in the order in which they came. The oldest are given up when there are too many."""

    most: int
    """Events at most."""
    most_bytes: int
    """Characters, more exactly. One event alone may have more."""
    newest: int = attrs.field(default=0, init=False)
    """The number of the newest event ever added; 0: none."""
    _texts: deque[str] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)

    @property
    def oldest(self) -> int:
        """The number of the oldest event that is kept; that of the next one where none is."""
        return self.newest - len(self._texts) + 1

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> int:
        """Keep an event; returns its number."""
        self._texts.append(text)
        self._bytes += len(text)
        self.newest += 1
        while len(self._texts) > max(1, self.most) or (self._bytes > self.most_bytes and len(self._texts) > 1):
            self._drop()
        return self.newest

    def next_after(self, number: int) -> tuple[int, str] | None:
        """The first kept event with a higher number, and its number; None: there is none."""
        if number >= self.newest or not self._texts:
            return None
        wanted = max(number + 1, self.oldest)
        return wanted, self._texts[wanted - self.oldest]

    def missed_after(self, number: int) -> int:
        """How many events with higher numbers are no longer kept."""
        return max(0, self.oldest - 1 - number)

    def seen(self, number: int) -> None:
        """Forget the events up to this number."""
        while self._texts and self.oldest <= number:
            self._drop()

    def _drop(self) -> None:
        self._bytes -= len(self._texts.popleft())
