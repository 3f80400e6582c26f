"""The events websocket's messages and pace (docs/farm-events.md): what a viewer wants, and is sent. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from actors.live_log import MAX_SIDE, MIN_SIDE

VERSION = 1
EVERYTHING = "*"
MAX_PHONES = 2000  # named in one message
MAX_MESSAGE = 256 << 10  # characters
LEAST_FPS, MOST_FPS = 0.05, 10.0


class WatchWrong(Exception):
    """A message is none of the protocol; the text says why."""


@attrs.frozen
class Screens:
    """The pictures that a viewer wants."""

    fps: float
    side: int
    """Pixels of the long side."""


@attrs.frozen
class Watch:
    """What a viewer wants; replaces what it wanted before. The default is a hidden tab's: nothing."""

    phones: tuple[str, ...] = ()
    """`*` among them: all that it may see."""
    screens: Screens | None = None
    detail: str | None = None
    """The phone that it wants to know everything of."""

    @property
    def is_hidden(self) -> bool:
        """Nothing is to be looked at, encoded or sent."""
        return not self.phones and self.detail is None

    def wants(self, phone: str) -> bool:
        """That phone is among those watched."""
        return EVERYTHING in self.phones or phone in self.phones


@attrs.frozen
class Seen:
    """So many pictures were drawn."""

    count: int


def parse_message(text: str) -> Watch | Seen:
    """What a client says.

    Raises:
        WatchWrong: it is no message of the protocol.
    """
    if len(text) > MAX_MESSAGE:
        raise WatchWrong(f"a message has at most {MAX_MESSAGE} characters")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WatchWrong("a message is a JSON object") from error
    match data:
        case {"type": "seen", "count": int(count)} if count >= 0 and not isinstance(count, bool):
            return Seen(count)
        case {"type": "watch"}:
            return _watch(data)
    raise WatchWrong("'type' is \"watch\" or \"seen\", the latter with a 'count' of 0 or more")


def _watch(data: Mapping[str, Any]) -> Watch:
    phones, screens, detail = data.get("phones"), data.get("screens"), data.get("detail")
    if not isinstance(phones, list) or not all(isinstance(one, str) for one in phones) or len(phones) > MAX_PHONES:
        raise WatchWrong(f"'phones' is a list of at most {MAX_PHONES} names, or [\"*\"]")
    if detail is not None and not isinstance(detail, str):
        raise WatchWrong("'detail' is the name of a phone, or null")
    return Watch(tuple(dict.fromkeys(phones)), None if screens is None else _screens(screens), detail)


def _screens(data: Any) -> Screens:
    fps, side = (data.get("fps"), data.get("side")) if isinstance(data, dict) else (None, None)
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not math.isfinite(fps) or fps <= 0:
        raise WatchWrong("'fps' must be a number above 0")
    if isinstance(side, bool) or not isinstance(side, int) or not MIN_SIDE <= side <= MAX_SIDE:
        raise WatchWrong(f"'side' must be a number from {MIN_SIDE} to {MAX_SIDE}")
    return Screens(min(MOST_FPS, max(LEAST_FPS, float(fps))), side)


@attrs.define
class Pace:
    """How many pictures are on their way to a viewer: it gets as many as it draws."""

    unseen: int = 0
    _turn: int = 0

    def sent(self) -> None:
        """One more is on its way."""
        self.unseen += 1

    def seen(self, count: int) -> None:
        """So many were drawn; more than were sent is as many."""
        self.unseen = max(0, self.unseen - count)

    def next_phones(self, watched: Sequence[str]) -> list[str]:
        """Those that a picture may be sent of now, each phone in its turn; at most two a phone are on their way."""
        free = min(len(watched), 2 * len(watched) - self.unseen)
        if free <= 0:
            return []
        start = self._turn % len(watched)
        self._turn = start + free
        return [*watched[start:], *watched[:start]][:free]


def picture_message(phone: str, header: Mapping[str, Any], jpeg: bytes) -> bytes:
    """A binary message: the length of its header in four bytes, big-endian, the header as JSON, the JPEG."""
    head = json.dumps({"phone": phone, **header}, ensure_ascii=False, separators=(",", ":")).encode()
    return len(head).to_bytes(4, "big") + head + jpeg
