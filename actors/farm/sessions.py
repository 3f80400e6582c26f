"""Sessions of people who logged in with a browser: a random id in a cookie stands for their token, in memory alone."""

import hashlib
import secrets
from collections.abc import Callable

import attrs

from actors.token_store import TokenRecord

COOKIE = "corral_session"
LIFE_SECONDS = 12 * 3600.0
IDLE_SECONDS = 2 * 3600.0
USER_SESSIONS = 20  # a person's browsers; one more ends the one that was idle for longest
MAX_SESSIONS = 10_000


class TooManySessions(Exception):
    """There is no room for one more."""


@attrs.define(eq=False)
class Session:
    """One log-in; times in seconds since 1970."""

    record: TokenRecord
    began_at: float
    used_at: float

    @property
    def expires_at(self) -> float:
        """Unless it is used before."""
        return min(self.began_at + LIFE_SECONDS, self.used_at + IDLE_SECONDS)


@attrs.define(eq=False)
class Sessions:
    """Those that are open. Their ids are kept as hashes: what looks one up tells nothing of another by its time."""

    draw: Callable[[], str] = lambda: secrets.token_urlsafe(32)
    _open: dict[str, Session] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        """How many there are, with those that have ended unseen."""
        return len(self._open)

    def open(self, record: TokenRecord, now: float) -> tuple[str, Session]:
        """Begin one; (the id for the cookie, the session).

        Raises:
            TooManySessions: of all users together.
        """
        mine = [name for name, one in self._open.items() if _owner(one.record) == _owner(record)]
        while len(mine) >= USER_SESSIONS:
            oldest = min(mine, key=lambda name: self._open[name].used_at)
            mine.remove(oldest)
            del self._open[oldest]
        if len(self._open) >= MAX_SESSIONS:
            self._open = {name: one for name, one in self._open.items() if now < one.expires_at}
        if len(self._open) >= MAX_SESSIONS:
            raise TooManySessions
        name = self.draw()
        session = self._open[_digest(name)] = Session(record, now, now)
        return name, session

    def find(self, name: str, now: float, *, use: bool = True) -> Session | None:
        """The session of an id, which goes on from now; None: there is none, or it is over.

        Args:
            name: The id.
            now: Time.
            use: False: it is only looked at, and its idle time goes on.
        """
        session = self._open.get(_digest(name))
        if session is None:
            return None
        if now >= session.expires_at:
            self.close(name)
            return None
        if use:
            session.used_at = max(session.used_at, now)
        return session

    def close(self, name: str) -> bool:
        """End it; whether there was one."""
        return self._open.pop(_digest(name), None) is not None


def _owner(record: TokenRecord) -> tuple[str, str]:
    return record.tenant, record.user


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
