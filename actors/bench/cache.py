"""Which cache layer gives a question another one's answer? Near misses by the thousand, for each layer by itself."""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from actors.assistant_caches import LayeredCaches
from actors.assistant_subjects import subjects_of
from actors.bench.near_misses import AskedFor, near_misses
from actors.bench.result import BenchResult, Tell
from actors.configuration import Problem, ScenarioError
from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.cache import SEMANTIC_THRESHOLD, ExactCache, ResultCache, SemanticCache
from sqlassist.catalog import Column, Dialect, Table
from sqlassist.config import SqlConfig
from sqlassist.decision import Decision
from sqlassist.messages import Asker
from sqlassist.metric_compile import compiled
from sqlassist.metric_query import MetricQuery
from sqlassist.ports import Subject
from sqlassist.result import ResultColumn, ResultSet, ValueType
from sqlassist.sample import sample_config
from sqlassist.verified import Status, VerifiedQuery, match, moving_times

TODAY = dt.date(2026, 6, 30)  # any day does: meanings are computed from it
THRESHOLDS = (0.8, 0.85, 0.9, SEMANTIC_THRESHOLD, 0.95)
SAFE_LAYERS = ("exact", "verified", "result")
SCOPES = ("tenant", "role", "schema", "layer", "day")
SCOPES_OF = {"verified": ("tenant", "schema"), "result": ("tenant", "role", "schema", "layer")}
"""What an answer depends on, where it is not all of them: a verified query is for a tenant and a schema; the day is in
the SQL of a result."""
MOST_EXAMPLES = 40
_ROOM = 1_000_000  # entries: nothing is to be pushed out here

Lookup = Callable[[AskedFor, Asker, tuple[Subject, ...], dt.date], MetricQuery | None]
"""The meaning of what a layer answers a question with; None: a miss."""

_Scope = tuple[Asker, tuple[Subject, ...], dt.date]


@attrs.frozen
class CacheBench:
    """What is measured."""

    questions: int = 300
    """That others are made of, in each language."""
    seed: int = 1
    thresholds: Sequence[float] = THRESHOLDS


def sample_databases() -> tuple[SqlConfig, TenantId]:
    """The layer of the sample data; no database is opened."""
    text = sample_config(Dialect.DUCKDB, 'folder = "nowhere"')
    return parse_sql_config(text.encode(), "sample.toml"), TenantId("tenant1")


def bench_cache(plan: CacheBench, config: SqlConfig, tenant: TenantId, tell: Tell) -> BenchResult:
    """Fill each layer with questions, and ask it others.

    Args:
        plan: How many.
        config: Whose layers; no database is asked.
        tenant: The first source that he sees is taken.
        tell: Hears of progress.

    Raises:
        ScenarioError: the tenant has no layer that says anything.
    """
    subjects = subjects_of(config, tenant, with_grammar=False)[:1]
    asked = near_misses(subjects[0].layer, subjects[0].catalog, TODAY, plan.questions, plan.seed) if subjects else ()
    first = [one for one in asked if not one.differs]
    others = [one for one in asked if one.differs]
    if not first or not others:
        raise ScenarioError([Problem(f"the tenant {tenant!r} has no metric with a time to ask about", "$.sources")])
    layers: dict[str, Lookup] = {
        "exact": _decisions(LayeredCaches(ExactCache(_ROOM), None), first, subjects, tenant),
        "verified": _verified(first, subjects[0], tenant),
        "result": _results(first, subjects, tenant),
    }
    for threshold in plan.thresholds:
        name = "semantic" if threshold == SEMANTIC_THRESHOLD else f"semantic at {threshold:g}"
        caches = LayeredCaches(None, None, SemanticCache(threshold, _ROOM))
        layers[name] = _decisions(caches, first, subjects, tenant)
    summary: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for number, (name, lookup) in enumerate(layers.items()):
        tell(name, number / len(layers))
        scopes = {kind: _scopes(subjects, tenant)[kind] for kind in SCOPES_OF.get(name, SCOPES)}
        measured = _measured(lookup, others, first, subjects, tenant, scopes)
        summary[name] = measured.summary
        rows += [{"layer": name, **row} for row in measured.rows]
    summary["questions_kept"] = len(first)
    summary["held"] = all(summary[name]["false_hits"] == 0 for name in SAFE_LAYERS)
    return BenchResult(
        name="cache",
        command=f"corral bench cache --questions {plan.questions} --seed {plan.seed}",
        summary=summary,
        rows=rows,
        notes=(
            "Each layer is filled with the same questions, and asked others: one thing differs, or only the words do.",
            "False hits: the answer of a question of another meaning. The first three layers must have none.",
            "The result cache is asked with the SQL that a question compiles to, the others with its words.",
            "Verified queries: only questions that mean the same tomorrow can be approved without slots.",
            f"The semantic cache is off by default. Its threshold is {SEMANTIC_THRESHOLD:g}; at any threshold it needs "
            "equal numbers, names and words of time as well.",
            "Rows of the language `any`: the same words for another tenant, role, schema, layer or day.",
        ),
    )


def _decisions(
    caches: LayeredCaches, first: Sequence[AskedFor], subjects: tuple[Subject, ...], tenant: TenantId
) -> Lookup:
    for one in first:
        decision = Decision("SELECT 1", subjects[0].source, "metric", one.query)
        caches.keep_decision(_asker(tenant), subjects, one.text, TODAY, decision)

    def lookup(one: AskedFor, asker: Asker, seen: tuple[Subject, ...], today: dt.date) -> MetricQuery | None:
        found = caches.decision(asker, seen, one.text, today)
        return found.query if found is not None else None

    return lookup


def _verified(first: Sequence[AskedFor], subject: Subject, tenant: TenantId) -> Lookup:
    """Every question is a verified one that can be approved: its times do not move."""
    meanings: dict[str, MetricQuery] = {}
    known = []
    version = subject.catalog.version
    for number, one in enumerate(first):
        if not moving_times(one.text, subject.layer, TODAY):
            meanings[f"v{number}"] = one.query
            known.append(
                VerifiedQuery(
                    f"v{number}",
                    tenant,
                    one.text,
                    f"SELECT {number}",
                    subject.source,
                    version,
                    status=Status.APPROVED,
                )
            )

    def lookup(one: AskedFor, asker: Asker, seen: tuple[Subject, ...], today: dt.date) -> MetricQuery | None:
        found = match(one.text, known, asker.tenant, seen[0].catalog, seen[0].layer, today, {})
        return meanings[found.query.id] if found is not None else None

    return lookup


def _results(first: Sequence[AskedFor], subjects: tuple[Subject, ...], tenant: TenantId) -> Lookup:
    caches = LayeredCaches(None, ResultCache(max_entries=_ROOM))
    meanings: dict[str, MetricQuery] = {}
    subject = subjects[0]
    for number, one in enumerate(first):
        rows = ResultSet((ResultColumn("x", ValueType.TEXT),), ((f"r{number}",),), is_truncated=False, seconds=0.0)
        meanings[f"r{number}"] = one.query
        caches.keep_result(_asker(tenant), subject, _sql(one, subject), "", 0.0, rows)

    def lookup(one: AskedFor, asker: Asker, seen: tuple[Subject, ...], today: dt.date) -> MetricQuery | None:
        del today  # it is in the SQL
        found = caches.result(asker, seen[0], _sql(one, seen[0]), "", 1.0)
        return meanings[str(found.rows[0][0])] if found is not None else None

    return lookup


def _sql(one: AskedFor, subject: Subject) -> str:
    return str(compiled(one.query, subject.layer, subject.catalog))


def _asker(tenant: TenantId, role: str = "viewer") -> Asker:
    return Asker("bench", tenant, frozenset({role}))


@attrs.frozen
class _Measured:
    summary: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]


def _measured(
    lookup: Lookup,
    others: Sequence[AskedFor],
    first: Sequence[AskedFor],
    subjects: tuple[Subject, ...],
    tenant: TenantId,
    scopes: Mapping[str, _Scope],
) -> _Measured:
    counts: Counter[tuple[str, str, str]] = Counter()
    examples: list[dict[str, Any]] = []
    for one in others:
        found = lookup(one, _asker(tenant), subjects, TODAY)
        kind = (one.language, one.differs)
        counts[(*kind, "asked")] += 1
        if found is None:
            continue
        counts[(*kind, "hits")] += 1
        if found != one.query:
            counts[(*kind, "false_hits")] += 1
            if len(examples) < MOST_EXAMPLES:
                examples.append({"asked": one.text, "differs": one.differs, "false_hit": True})
    for scope, (asker, seen, today) in scopes.items():
        for one in first:
            counts["any", scope, "asked"] += 1
            if lookup(one, asker, seen, today) is not None:  # their answers are not this asker's, whatever they say
                counts["any", scope, "hits"] += 1
                counts["any", scope, "false_hits"] += 1
    rows: list[dict[str, Any]] = [
        {
            "language": language,
            "differs": differs,
            "asked": counts[language, differs, "asked"],
            "hits": counts[language, differs, "hits"],
            "false_hits": counts[language, differs, "false_hits"],
        }
        for language, differs in dict.fromkeys((language, differs) for language, differs, _ in counts)
    ]
    hits, false_hits = sum(row["hits"] for row in rows), sum(row["false_hits"] for row in rows)
    asked = sum(row["asked"] for row in rows)
    reworded = [row for row in rows if row["differs"] == "words"]
    return _Measured(
        {
            "asked": asked,
            "hits": hits,
            "false_hits": false_hits,
            "false_share": round(false_hits / asked, 6),
            "reworded": sum(row["asked"] for row in reworded),
            "reworded_hits": sum(row["hits"] for row in reworded),
        },
        [*rows, *examples],
    )


def _scopes(subjects: tuple[Subject, ...], tenant: TenantId) -> dict[str, tuple[Asker, tuple[Subject, ...], dt.date]]:
    """The same words for somebody else, or over something else."""
    subject = subjects[0]
    more = Table("one_more_table", (Column("one_more_column"),))
    other_schema = attrs.evolve(subject.catalog, tables=(*subject.catalog.tables, more))
    return {
        "tenant": (_asker(TenantId(f"{tenant}-other")), subjects, TODAY),
        "role": (_asker(tenant, "admin"), subjects, TODAY),
        "schema": (_asker(tenant), (attrs.evolve(subject, catalog=other_schema),), TODAY),
        "layer": (_asker(tenant), (attrs.evolve(subject, layer_version="another"),), TODAY),
        "day": (_asker(tenant), subjects, TODAY + dt.timedelta(days=1)),
    }
