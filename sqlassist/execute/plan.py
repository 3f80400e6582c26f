"""From an EXPLAIN to numbers, and from numbers to a verdict. Works on the table form, which all servers have."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlassist.config import SqlLimits
from sqlassist.guard.bounds import ROW_BOUND
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import PlanNumbers

NO_ROW_GATE = Refusal(
    "join_without_equality", "", "join the tables with an equality between columns of both: rows are not bounded here"
)
FULL = ("ALL", "index")  # `index` is a full scan too, of an index


def plan_numbers(rows: Iterable[Mapping[str, Any]]) -> PlanNumbers:
    """Read the rows of `EXPLAIN` (MySQL: `FORMAT=TRADITIONAL`).

    Tables of one SELECT are nested loops, so their row numbers multiply; a dependent subquery runs again for
    every row of the first SELECT. Both overestimate, as filters between the loops are left out.
    """
    products: dict[str, int] = {}
    dependent: set[str] = set()
    scans: list[int] = []
    for row in rows:
        select = str(row.get("id"))
        count = int(row.get("rows") or 0)
        if row.get("rows") is not None:
            products[select] = products.get(select, 1) * max(count, 1)
        if str(row.get("select_type") or "").startswith(("DEPENDENT", "UNCACHEABLE")):
            dependent.add(select)
        table = str(row.get("table") or "")
        if row.get("type") in FULL and not table.startswith("<"):
            scans.append(count)
    outer = products.get("1", 1)
    examined = sum(product * (outer if select in dependent else 1) for select, product in products.items())
    return PlanNumbers(examined, max(scans, default=0), len(scans))


def judge_plan(numbers: PlanNumbers, limits: SqlLimits) -> Refusal | None:
    """Why a plan is too dear, or None."""
    if numbers.scanned_rows > limits.max_scan_rows:
        hint = f"it would read a table in full, about {numbers.scanned_rows:,} rows: restrict it by an indexed column"
        return Refusal("full_scan", "", hint)
    if numbers.examined_rows > limits.max_examined_rows:
        hint = f"it would examine about {numbers.examined_rows:,} rows: restrict it, or join on keys"
        return Refusal("too_many_rows_examined", "", hint)
    return None


def judge_row_gate(query: CheckedQuery, *, plan_gate: bool, max_join_size: int) -> Refusal | None:
    """Why a query whose rows the guard left to a gate may not run, or None.

    Args:
        query: what the guard passed.
        plan_gate: True where plans of this source are judged before queries run.
        max_join_size: rows that the server itself may expect to examine; 0 where it has no such bound.
    """
    has_gate = plan_gate or max_join_size > 0
    return NO_ROW_GATE if ROW_BOUND in query.bounds and not has_gate else None
