"""From an EXPLAIN to numbers, and from numbers to a verdict. Works on the table form, which all servers have."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlassist.config import SqlLimits
from sqlassist.messages import Refusal
from sqlassist.result import PlanNumbers

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
