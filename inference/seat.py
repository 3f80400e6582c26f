"""One engine as the pool keeps it."""

import attrs
import trio

from inference.client import ClientStatistics, EngineClient, EngineLoad
from inference.config import EngineConfig
from inference.health import CircuitBreaker, CircuitState
from inference.slots import EngineSlots
from runtime.ids import EngineId


@attrs.frozen
class EngineStatistics:
    """One engine as the pool sees it now."""

    id: EngineId
    url: str
    circuit: CircuitState
    draining: bool
    in_flight: int
    waiting: int
    homed: int
    """Routing keys whose home it is."""
    load: EngineLoad
    """What the engine itself said at the last probe."""
    client: ClientStatistics


class Seat:
    """One registered engine: its client, its health, its seats, and the requests that are out."""

    def __init__(self, config: EngineConfig, client: EngineClient) -> None:
        self.config = config
        self.client = client
        self.breaker = CircuitBreaker()
        self.slots = EngineSlots(config.id, config.max_in_flight, config.max_waiting)
        self.load = EngineLoad()
        self.draining = False
        self.answered = trio.Event()  # a probe of it was answered
        self.probe_error: str | None = None  # what the last probe came to, if it failed
        self.probing = trio.CancelScope()
        self.calls: set[trio.CancelScope] = set()  # of the requests that are out

    def is_available(self, now: float) -> bool:
        """True when requests may be sent to it."""
        return not self.draining and not self.breaker.is_open(now)
