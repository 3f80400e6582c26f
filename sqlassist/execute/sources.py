"""Every source of a configuration, each opened by the backend of its dialect when the first query needs it.

What speaks to servers is an extra, and imported for them alone: DuckDB files need none of it.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import trio

from runtime.ids import TenantId
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.execute.backend import BackendStatistics
from sqlassist.execute.embedded import EmbeddedBackend
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet

if TYPE_CHECKING:
    from sqlassist.execute.server import ServerBackend


class Sources:
    """Made by `open_sources`."""

    def __init__(self, config: SqlConfig) -> None:
        self.config = config
        self._backends: dict[str, ServerBackend | EmbeddedBackend] = {}

    async def execute(self, source: str, tenant: TenantId, query: CheckedQuery) -> ResultSet | Refusal:
        """Run a query on a source. See `Backend.execute`."""
        return await self._backend(source).execute(tenant, query)

    def statistics(self) -> dict[str, BackendStatistics]:
        """Of every source that has been used."""
        return {name: backend.statistics() for name, backend in self._backends.items()}

    async def aclose(self) -> None:
        """Close what is open."""
        for backend in self._backends.values():
            if isinstance(backend, EmbeddedBackend):
                backend.close()
            else:
                await backend.aclose()

    def _backend(self, name: str) -> "ServerBackend | EmbeddedBackend":
        if name not in self._backends:
            self._backends[name] = self._opened(name)
        return self._backends[name]

    def _opened(self, name: str) -> "ServerBackend | EmbeddedBackend":
        if self.config.sources[name].dialect is Dialect.DUCKDB:
            return EmbeddedBackend(self.config, name)
        from sqlassist.execute.server import ServerBackend  # noqa: PLC0415  # an extra

        return ServerBackend(self.config, name)


@asynccontextmanager
async def open_sources(config: SqlConfig) -> AsyncIterator[Sources]:
    """All sources of a configuration, for the time of the block."""
    async with AsyncExitStack() as stack:
        if any(source.dialect is not Dialect.DUCKDB for source in config.sources.values()):
            import trio_asyncio  # noqa: PLC0415  # an extra

            await stack.enter_async_context(trio_asyncio.open_loop())
        sources = Sources(config)
        try:
            yield sources
        finally:
            with trio.CancelScope(shield=True):
                await sources.aclose()
