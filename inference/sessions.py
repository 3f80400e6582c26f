"""Which engines keep a session of which episode, so that each is told when it is over (SGLang, session radix cache)."""

from collections import OrderedDict

import attrs

from runtime.ids import EngineId

MAX_SESSIONS = 100_000  # as homes; an engine whose session is forgotten here reclaims its memory when it needs it


@attrs.define
class EngineSessions:
    """The table of sessions."""

    max_sessions: int = MAX_SESSIONS
    _engines: OrderedDict[str, set[EngineId]] = attrs.field(factory=OrderedDict, init=False)

    def use(self, key: str, engine: EngineId) -> None:
        """A request that names the session goes to the engine."""
        engines = self._engines.get(key)
        if engines is None:
            if len(self._engines) >= self.max_sessions:
                self._engines.popitem(last=False)
            engines = self._engines[key] = set()
        else:
            self._engines.move_to_end(key)
        engines.add(engine)

    def forget(self, key: str, engine: EngineId) -> bool:
        """The session is over at one engine; False if it was never there."""
        engines = self._engines.get(key, set())
        if engine not in engines:
            return False
        engines.discard(engine)
        return True

    def take(self, key: str) -> tuple[EngineId, ...]:
        """The session is over everywhere: the engines that must be told."""
        return tuple(sorted(self._engines.pop(key, ())))

    def __len__(self) -> int:
        return len(self._engines)
