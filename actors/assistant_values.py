"""Frequent values of dimensions and the last days of rollups, asked as the tenant and kept for a while."""

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from runtime.ids import TenantId
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.limits import Limits
from sqlassist.messages import Refusal
from sqlassist.ports import Subject
from sqlassist.result import ResultSet
from sqlassist.sampling import DAYS_LOOKED_AT, last_day_sql, rows_between, sampling_sql
from sqlassist.sources import SourceChoice

MOST_VALUES = 50  # of one dimension: more are no enumeration
KEPT_SECONDS = 600.0
ROLLUPS_KEPT_SECONDS = 60.0  # they are refreshed every few minutes

Values = Mapping[str, Mapping[str, tuple[str, ...]]]
RollupDays = Mapping[str, Mapping[str, dt.date]]
Run = Callable[[TenantId, SourceChoice], Awaitable[ResultSet | Refusal]]


@attrs.define(eq=False)
class SampledValues:
    """Source → dimension → values, by tenant. A tenant's are asked for when he first asks something."""

    subjects: Callable[[TenantId], tuple[Subject, ...]]
    run: Run
    today: Callable[[], dt.date] = attrs.field(default=lambda: dt.datetime.now(dt.UTC).date())
    _kept: dict[TenantId, tuple[float, Values]] = attrs.field(factory=dict, init=False)
    _days: dict[TenantId, tuple[float, RollupDays]] = attrs.field(factory=dict, init=False)
    _locks: dict[TenantId, trio.Lock] = attrs.field(factory=dict, init=False)

    async def __call__(self, tenant: TenantId) -> Values:
        """The values; asked for anew when they are old. Raises `DatabaseError`."""
        lock = self._locks.setdefault(tenant, trio.Lock())
        async with lock:
            kept = self._kept.get(tenant)
            if kept is not None and trio.current_time() - kept[0] < KEPT_SECONDS:
                return kept[1]
            found = {subject.source: await self._of(tenant, subject) for subject in self.subjects(tenant)}
            self._kept[tenant] = (trio.current_time(), found)
            return found

    async def _of(self, tenant: TenantId, subject: Subject) -> Mapping[str, tuple[str, ...]]:
        found = {}
        for name, dimension in subject.layer.dimensions.items():
            if not dimension.enumerable:
                continue
            values = await self._frequent(tenant, subject, dimension.column)
            if values:
                found[name] = values
        return found

    async def _frequent(self, tenant: TenantId, subject: Subject, place: str) -> tuple[str, ...]:
        """Of a partitioned table the latest rows are looked at; none where a gate says that it costs too much."""
        table = subject.catalog.table(place.partition(".")[0])
        assert table is not None, "the layer was cut to the catalog"
        today = self.today()
        for days in DAYS_LOOKED_AT if table.partition is not None else (0,):
            start, end = today - dt.timedelta(days=days), today + dt.timedelta(days=1)
            where = rows_between(table, subject.catalog.dialect, start, end)
            sql = sampling_sql(place, subject.catalog.dialect, MOST_VALUES, where)
            query = check(sql, subject.catalog, Limits(MOST_VALUES))
            if not isinstance(query, CheckedQuery):
                break
            result = await self.run(tenant, SourceChoice(subject.source, "asked", query))
            if not isinstance(result, ResultSet):
                break
            if result.rows:
                return tuple(str(row[0]) for row in result.rows if row[0] is not None)
        return ()

    async def rollup_days(self, tenant: TenantId) -> RollupDays:
        """Source → rollup → its last day; asked for anew when they are old. Raises `DatabaseError`."""
        async with self._locks.setdefault(tenant, trio.Lock()):
            kept = self._days.get(tenant)
            if kept is not None and trio.current_time() - kept[0] < ROLLUPS_KEPT_SECONDS:
                return kept[1]
            found = {subject.source: await self._last_days(tenant, subject) for subject in self.subjects(tenant)}
            self._days[tenant] = (trio.current_time(), found)
            return found

    async def _last_days(self, tenant: TenantId, subject: Subject) -> Mapping[str, dt.date]:
        found = {}
        for name in subject.layer.rollups:
            query = check(last_day_sql(name, subject.catalog.dialect), subject.catalog, Limits())
            if not isinstance(query, CheckedQuery):
                continue  # the catalog has no such table: nothing is pre-aggregated here
            result = await self.run(tenant, SourceChoice(subject.source, "asked", query))
            if isinstance(result, ResultSet) and result.rows and isinstance(result.rows[0][0], str):
                found[name] = dt.date.fromisoformat(result.rows[0][0])
        return found
