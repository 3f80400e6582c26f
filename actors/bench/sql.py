"""What does the guard cost? CPU time of every check, on queries that nobody here wrote; and of compiling grammars."""

import gc
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlglot.parser

from actors.bench.result import BenchResult, Tell
from actors.configuration import Problem, ScenarioError
from actors.sql_schemas import parse_schemas
from sqlassist.catalog import Catalog, Dialect
from sqlassist.grammar import grammar_for
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery

AIM_P50_MS = 1.5
AIM_P99_MS = 12.0
WARM_UP = 100  # the parser fills its caches on the first statements


def bench_guard(*, schemas: Path, queries: Path, dialects: Sequence[Dialect], rounds: int, tell: Tell) -> BenchResult:
    """Check every query `rounds` times in each dialect, and compile every database's grammar.

    Args:
        schemas: JSON lines as `corral sql check --schema` takes them.
        queries: JSON lines `{"sql": ..., "db": ...}`.
        dialects: Which SQL the queries are taken for.
        rounds: How often; a query's time is its median over the rounds, as other processes disturb single ones.
        tell: Whom to tell how far it is.

    Raises:
        ScenarioError: a file cannot be read or is none of this kind.
    """
    asked = _queries(queries)
    summary: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for number, dialect in enumerate(dialects):
        catalogs = parse_schemas(_read(schemas), dialect, str(schemas))
        pairs = [(sql, catalogs[db]) for sql, db in asked if db in catalogs]
        if len(pairs) != len(asked):
            raise ScenarioError([Problem("a query names a database that the schemas do not have", "$", str(queries))])
        for sql, catalog in pairs[:WARM_UP]:
            check(sql, catalog)
        gc.collect()
        gc.freeze()
        taken: list[list[float]] = [[] for _ in pairs]
        passed = 0
        for round_number in range(rounds):
            tell(f"{dialect}", (number + round_number / rounds) / len(dialects))
            for index, (sql, catalog) in enumerate(pairs):
                begun = time.process_time_ns()
                result = check(sql, catalog)
                taken[index].append((time.process_time_ns() - begun) / 1e6)
                passed += round_number == 0 and isinstance(result, CheckedQuery)
        gc.unfreeze()
        medians = sorted(statistics.median(times) for times in taken)
        summary[dialect.value] = {
            "queries": len(pairs),
            "passed": passed,
            "p50_ms": round(_quantile(medians, 0.50), 3),
            "p95_ms": round(_quantile(medians, 0.95), 3),
            "p99_ms": round(_quantile(medians, 0.99), 3),
            "max_ms": round(medians[-1], 3),
            "single_p99_ms": round(_quantile(sorted(t for times in taken for t in times), 0.99), 3),
        }
        rows += [{"dialect": dialect.value, **_compiled(catalog)} for catalog in catalogs.values()]
    is_compiled = not str(sqlglot.parser.__file__).endswith(".py")
    summary["parser_is_compiled"] = is_compiled
    summary["grammar_compile_ms"] = round(statistics.median(row["grammar_ms"] for row in rows), 2)
    return BenchResult(
        name="sql-guard",
        command=f"corral bench sql --schemas {schemas.name} --queries {queries.name} --rounds {rounds}",
        summary=summary,
        rows=rows,
        notes=(
            f"CPU time of this process per check, parsing to fixed point; each query's median of {rounds} rounds.",
            f"Aim with the compiled parser: p50 <= {AIM_P50_MS} ms, p99 <= {AIM_P99_MS} ms.",
            "single_p99_ms is over every single check, hiccups of the machine included.",
            "DuckDB refuses queries that put texts in double quotes, as the database itself does.",
        ),
    )


def _compiled(catalog: Catalog) -> dict[str, Any]:
    begun = time.process_time_ns()
    grammar = grammar_for(catalog)
    spent = (time.process_time_ns() - begun) / 1e6
    return {
        "database": catalog.name,
        "tables": len(catalog.tables),
        "grammar_ms": round(spent, 3),
        "grammar_rules": grammar.rules,
        "grammar_bytes": len(grammar.ebnf.encode()),
        "dropped_joins": grammar.dropped_shapes,
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror}", "$", str(path))]) from error


def _queries(path: Path) -> list[tuple[str, str]]:
    made = []
    for number, line in enumerate(_read(path).decode("utf-8-sig", "replace").splitlines(), start=1):
        try:
            query = json.loads(line)
            made.append((str(query["sql"]), str(query["db"])))
        except (ValueError, KeyError, TypeError) as error:
            problem = Problem('each line is {"sql": ..., "db": ...}', "$", str(path), number)
            raise ScenarioError([problem]) from error
    if not made:
        raise ScenarioError([Problem("the file holds no query", "$", str(path))])
    return made
