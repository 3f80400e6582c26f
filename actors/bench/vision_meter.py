"""How often an engine's vision encoder was spared: hits of its vision cache, apart from those of its KV cache."""

from inference.client import EngineClient
from inference.errors import EngineError
from inference.loads import VisionCacheCount, read_vision_cache

NOT_TOLD = "not told by this engine"


class VisionMeter:
    """The vision cache's counters of one engine, from a moment on. Whoever else uses the engine is counted too."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._before: VisionCacheCount | None = None
        self.problem: str | None = None
        """Why nothing could be read, where that is not simply that the engine has no such counters."""

    async def restart(self) -> None:
        """Count from now on."""
        self._before = await self._count()

    async def hit_share(self) -> float | None:
        """Share of the pictures since `restart` that were found; None where the engine does not tell."""
        if self._before is None:
            return None
        now = await self._count()
        share = None if now is None else now.share_since(self._before)
        return None if share is None else round(share, 4)

    async def _count(self) -> VisionCacheCount | None:
        try:
            said = await self._client.ask("/metrics")
            return None if said is None else read_vision_cache(said, self._client.config.id)
        except EngineError as error:
            self.problem = str(error)
            return None
