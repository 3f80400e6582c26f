"""What every backend offers. There is no way in for a text: only for what the guard has checked."""

from typing import Protocol

import attrs

from runtime.ids import TenantId
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet


@attrs.frozen
class BackendStatistics:
    """What a backend has done and holds."""

    queries: int
    refused: int
    killed: int
    """Queries that we ended on the server: at their deadline, at a cap, or because nobody waits for them any more."""
    lost_kills: int
    """Kills that did not get through: these are left to the watchdog."""
    connections: int
    """Open now."""
    waiting: int
    """Queries that wait for a connection now."""


class Backend(Protocol):
    """Runs checked queries of one source."""

    async def execute(self, tenant: TenantId, query: CheckedQuery) -> ResultSet | Refusal:
        """Run a query as its tenant, within every bound.

        When it is cancelled, the query has ended on the server before this returns, or the lost kill is counted.

        Raises:
            DatabaseError: the database cannot be used.
        """
        ...

    def statistics(self) -> BackendStatistics:
        """Counts since the start, and what is open."""
        ...
