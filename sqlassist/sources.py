"""Which of a tenant's databases a query is for, and why. Joins across servers are refused: no server could run them."""

from collections.abc import Mapping

import attrs
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from runtime.ids import TenantId
from sqlassist.config import SqlConfig
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.limits import Limits
from sqlassist.guard.regenerate import language_for
from sqlassist.messages import Refusal


@attrs.frozen
class SourceChoice:
    """A query that passed the guard, on the source that it is for."""

    source: str
    why: str
    """`only`, `asked` or `tables`."""
    query: CheckedQuery


def limits_for(config: SqlConfig, source: str) -> Limits:
    """What the guard measures queries of a source against."""
    return Limits(max_rows=config.sources[source].limits.max_rows)


def check_for(config: SqlConfig, tenant: TenantId, sql: str, source: str = "") -> SourceChoice | Refusal:
    """Run the guard with the catalog of the source that is named, or of each source until one has every table.

    Returns:
        The choice; or the guard's refusal, `across_sources` where only several sources together have every table, or
        `unknown_tenant` or `unknown_source`.
    """
    if tenant not in config.tenants:
        return Refusal("unknown_tenant", "", "this tenant has no database")
    names = config.sources_of(tenant)
    if source and source not in names:
        return Refusal("unknown_source", source, f"there is no source {source!r}; there are: {', '.join(names)}")
    refusals: dict[str, Refusal] = {}
    for name in (source,) if source else names:
        result = check(sql, config.catalog(name, tenant), limits_for(config, name))
        if isinstance(result, CheckedQuery):
            return SourceChoice(name, "asked" if source else "only" if len(names) == 1 else "tables", result)
        refusals[name] = result
    if len(refusals) > 1 and all(refusal.code == "unknown_table" for refusal in refusals.values()):
        across = _across(config, tenant, sql, tuple(refusals))
        if across is not None:
            return across
    return _nearest(refusals)


def _nearest(refusals: Mapping[str, Refusal]) -> Refusal:
    """That of the source which got furthest: one that knew every table, else the first."""
    if not refusals:
        return Refusal("unknown_source", "", "this tenant has no database")
    return next((r for r in refusals.values() if r.code != "unknown_table"), next(iter(refusals.values())))


def _across(config: SqlConfig, tenant: TenantId, sql: str, sources: tuple[str, ...]) -> Refusal | None:
    owners: dict[str, str] = {}
    catalogs = {source: config.catalog(source, tenant) for source in sources}
    try:
        tree = parse_one(sql, dialect=language_for(catalogs[sources[0]].dialect))
    except (SqlglotError, RecursionError):
        return None
    for table in tree.find_all(exp.Table):
        owner = next((source for source in sources if catalogs[source].table(table.name) is not None), None)
        if owner is not None:
            owners[table.name] = owner
    if len(set(owners.values())) < 2:
        return None
    where = "; ".join(f"{table} is on {owner}" for table, owner in sorted(owners.items()))
    return Refusal("across_sources", "", f"one query cannot join two servers ({where}): ask each one apart")
