"""MariaDB and MySQL: every tenant's queries under his own account, in his own schema, on his own few connections."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio
import trio_asyncio

from runtime.ids import TenantId
from runtime.telemetry import histogram
from sqlassist.catalog import Catalog, Dialect
from sqlassist.config import SourceConfig, SqlConfig
from sqlassist.credentials import password_for
from sqlassist.execute.backend import BackendStatistics
from sqlassist.execute.errors import OVERLOADED, TOO_SLOW, DatabaseLost, refusal_for
from sqlassist.execute.partitions import judge_partitions
from sqlassist.execute.plan import judge_plan, judge_row_gate, plan_numbers
from sqlassist.execute.session import (
    Answer,
    QueryFailed,
    Session,
    SessionPlan,
    open_session,
    service_settings,
    tenant_settings,
)
from sqlassist.execute.tenant_pool import Full, TenantPool
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.naming import account_name, schema_name, service_account
from sqlassist.result import PlanNumbers, ResultSet

T = TypeVar("T")

EXPLAIN_SECONDS = 2.0  # an EXPLAIN takes about a millisecond; one that materialises something may take longer
EXPLAIN_POOL = 2
_DONT_CARE = 10_000  # waiting explainers are bounded by waiting tenants

_SECONDS = histogram("sqlassist_execute_seconds", "Queries on servers, waiting for a connection included.", ["source"])


class ServerBackend:
    """Made by `open_server_backend`."""

    def __init__(self, config: SqlConfig, name: str) -> None:
        self.config = config
        self.name = name
        self._source: SourceConfig = config.sources[name]
        self._pools: dict[TenantId, TenantPool] = {}
        self._catalogs: dict[TenantId, Catalog] = {}
        self._queries = self._refused = 0
        self._explainers: TenantPool | None = None

    async def execute(self, tenant: TenantId, query: CheckedQuery) -> ResultSet | Refusal:
        """See `Backend.execute`."""
        begun = trio.current_time()
        self._queries += 1
        try:
            async with self._pool(tenant).place():
                result = await self._within_deadline(tenant, query, begun)
        except Full:
            result = OVERLOADED
        _SECONDS.labels(source=self.name).observe(trio.current_time() - begun)
        self._refused += isinstance(result, Refusal)
        return result

    async def _within_deadline(self, tenant: TenantId, query: CheckedQuery, begun: float) -> ResultSet | Refusal:
        try:
            with trio.fail_after(self._source.limits.deadline_seconds):
                return await self._gated(tenant, query, begun)
        except trio.TooSlowError:
            return TOO_SLOW
        except QueryFailed as error:
            return refusal_for(error.code)

    async def _gated(self, tenant: TenantId, query: CheckedQuery, begun: float) -> ResultSet | Refusal:
        limits, numbers = self._source.limits, None
        has_plan_gate = limits.plan_gate and self._source.explainer
        unbounded = judge_row_gate(query, plan_gate=has_plan_gate, max_join_size=limits.max_join_size)
        if unbounded is not None:
            return unbounded
        if limits.require_partition_filter:
            missing = judge_partitions(query, self._catalog(tenant))
            if missing is not None:
                return missing
        if has_plan_gate:
            numbers = await self.explain(tenant, query)
            refusal = judge_plan(numbers, limits)
            if refusal is not None:
                return refusal
        answer = await self._answer(tenant, query)
        is_part = answer.is_truncated or (query.is_clamped and len(answer.rows) >= query.max_rows)
        return ResultSet(answer.columns, answer.rows, is_part, trio.current_time() - begun, numbers, self.name)

    async def _answer(self, tenant: TenantId, query: CheckedQuery) -> Answer:
        limits = self._source.limits
        max_rows = min(limits.max_rows, query.max_rows)

        async def ask(session: Session) -> Answer:
            return await session.query(query.sql, max_rows=max_rows, max_bytes=limits.max_result_bytes)

        return await _on_session(self._pool(tenant), ask)

    async def explain(self, tenant: TenantId, query: CheckedQuery) -> PlanNumbers:
        """What the server expects the query to cost, asked under the explainer's account.

        Raises as `execute`, and `QueryFailed`.
        """
        form = "PARTITIONS" if self._source.dialect is Dialect.MARIADB else "FORMAT=TRADITIONAL"
        pool = self._explainer_pool()
        schema = schema_name(self.config, self.name, tenant)

        async def ask(session: Session) -> PlanNumbers:
            return plan_numbers(await session.rows(f"EXPLAIN {form} {query.sql}", schema))

        async with pool.place():
            return await _on_session(pool, ask)

    def statistics(self) -> BackendStatistics:
        """See `Backend.statistics`."""
        pools = self._all_pools()
        return BackendStatistics(
            queries=self._queries,
            refused=self._refused,
            killed=sum(pool.killed for pool in pools),
            lost_kills=sum(pool.lost_kills for pool in pools),
            connections=sum(pool.connections for pool in pools),
            waiting=sum(pool.waiting for pool in pools),
        )

    async def aclose(self) -> None:
        """Close every connection that is not in use."""
        for pool in self._all_pools():
            await pool.aclose()

    def _all_pools(self) -> list[TenantPool]:
        return [*self._pools.values(), *([self._explainers] if self._explainers is not None else [])]

    def _catalog(self, tenant: TenantId) -> Catalog:
        if tenant not in self._catalogs:
            self._catalogs[tenant] = self.config.catalog(self.name, tenant)
        return self._catalogs[tenant]

    def _pool(self, tenant: TenantId) -> TenantPool:
        if tenant not in self._pools:
            account = account_name(self.config, self.name, tenant)
            settings = tenant_settings(self._source, self._source.limits)
            plan = self._plan(account, schema_name(self.config, self.name, tenant), settings)
            self._pools[tenant] = self._pool_of(plan, self._source.limits.pool, self._source.limits.waiting)
        return self._pools[tenant]

    def _explainer_pool(self) -> TenantPool:
        if self._explainers is None:
            account = service_account(self.config, self.name, "explainer")
            plan = self._plan(account, None, service_settings(self._source, EXPLAIN_SECONDS))
            self._explainers = self._pool_of(plan, EXPLAIN_POOL, _DONT_CARE)
        return self._explainers

    def _plan(self, account: str, schema: str | None, settings: str) -> SessionPlan:
        return session_plan(self._source, self.name, account, schema, settings)

    @staticmethod
    def _pool_of(plan: SessionPlan, size: int, waiting: int) -> TenantPool:
        async def open_one() -> Session:
            return await open_session(plan)

        return TenantPool(open_one, size=size, waiting=waiting, account=plan.user)


async def _on_session(pool: TenantPool, ask: Callable[[Session], Awaitable[T]]) -> T:
    """Ask on a session of the pool; only for who holds a place.

    The server closes connections that were idle for long. That is noticed at the next use, and another one is taken:
    a question that only reads may be asked again.
    """
    while True:
        async with pool.session() as (session, was_used):
            try:
                return await ask(session)
            except DatabaseLost:
                if not was_used:
                    raise
                session.close()


def session_plan(source: SourceConfig, name: str, account: str, schema: str | None, settings: str) -> SessionPlan:
    """How an account of a source connects for reading: to the replica where there is one."""
    replica = source.replica_host
    return SessionPlan(
        source=name,
        host=replica or source.host,
        port=source.replica_port if replica else source.port,
        socket="" if replica else source.socket,
        tls_ca=source.tls_ca,
        user=account,
        password=password_for(source.credentials, account),
        schema=schema,
        settings=settings,
    )


@asynccontextmanager
async def open_server_backend(config: SqlConfig, name: str) -> AsyncIterator[ServerBackend]:
    """The backend of one server, for the time of the block. Connections are made when they are needed."""
    async with trio_asyncio.open_loop():
        backend = ServerBackend(config, name)
        try:
            yield backend
        finally:
            with trio.CancelScope(shield=True):
                await backend.aclose()
