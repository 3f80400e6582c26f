"""What is kept of an answer to a pinned question: a page of rows, the sentence, the chart, or why there is none. Pure.

Answers may be large, and stay in the farm's state for ever: what is kept is bounded, and says that it was cut.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs

from actors.farm.pins import Threshold, number_in
from sqlassist.messages import Event, Stage

KEPT_ROWS = 200
KEPT_BYTES = 256 << 10  # of the rows, and again of the chart
KEPT_TEXT = 4000  # characters


@attrs.define(eq=False)
class AnswerTaker:
    """Takes the events of one answer."""

    threshold: Threshold | None
    columns: list[str] = attrs.field(factory=list, init=False)
    rows: list[list[Any]] = attrs.field(factory=list, init=False)
    count: int = attrs.field(default=0, init=False)
    """Rows that came."""
    truncated: bool = attrs.field(default=False, init=False)
    """There are more than are kept."""
    sql: str = attrs.field(default="", init=False)
    summary: str = attrs.field(default="", init=False)
    chart: Mapping[str, Any] | None = attrs.field(default=None, init=False)
    extreme: float | None = attrs.field(default=None, init=False)
    """The number of the threshold's column that is furthest beyond, or nearest to it."""
    _bytes: int = attrs.field(default=0, init=False)

    async def take(self, event: Event) -> None:
        """One event. It is JSON: what is none raises ValueError."""
        data = event.data
        match event.stage:
            case Stage.SQL:
                self.sql = _cut(data.get("sql"))
            case Stage.ROWS:
                self._take_rows(data)
            case Stage.SUMMARY:
                self.summary = _cut(data.get("text"))
            case Stage.CHART:
                spec = data.get("spec")
                fits = isinstance(spec, Mapping) and _size(spec) <= KEPT_BYTES
                self.chart = spec if fits else None

    def answered(self, last: Event, at: float) -> dict[str, Any]:
        """What is kept of an answer that has come.

        Args:
            last: How it ended.
            at: When, in seconds since 1970.
        """
        return {
            "state": "succeeded",
            "at": at,
            "error": None,
            "failed_at": None,
            "columns": self.columns,
            "rows": self.rows,
            "row_count": self.count,
            "truncated": self.truncated,
            "sql": self.sql or _cut(last.data.get("sql")),
            "summary": self.summary or _cut(last.data.get("text")),
            "chart": None if self.chart is None else dict(self.chart),
        }

    def _take_rows(self, data: Mapping[str, Any]) -> None:
        if not data.get("offset"):  # a second attempt begins anew
            self.columns, self.rows, self.count, self._bytes = [str(one) for one in data.get("columns", ())], [], 0, 0
            self.truncated, self.extreme, self.chart, self.summary = False, None, None, ""
        self.sql = _cut(data.get("sql") or self.sql)
        index = self._index()
        for row in data.get("rows", ()):
            self.count += 1
            if index is not None and index < len(row):
                self._compare(row[index])
            size = _size(row)
            if len(self.rows) >= KEPT_ROWS or self._bytes + size > KEPT_BYTES:
                self.truncated = True
            else:
                self.rows.append(list(row))
                self._bytes += size
        self.truncated = self.truncated or bool(data.get("truncated"))

    def _index(self) -> int | None:
        if self.threshold is None or self.threshold.column not in self.columns:
            return None
        return self.columns.index(self.threshold.column)

    def _compare(self, cell: Any) -> None:
        number = number_in(cell)
        if number is None:
            return
        assert self.threshold is not None
        better = max if self.threshold.is_upper else min
        self.extreme = number if self.extreme is None else better(self.extreme, number)


def failed(before: Mapping[str, Any] | None, why: str, at: float) -> dict[str, Any]:
    """What is kept where no answer came: the one before, and why it is old."""
    return {**(before or {"at": None}), "state": "failed", "error": _cut(why), "failed_at": at}


def why_none(last: Event) -> str | None:
    """Why a question that ended so was not answered; None: it was."""
    if last.stage is Stage.ANSWER:
        return None
    text = str(last.data.get("text") or last.data.get("code") or "")
    if last.stage is Stage.CLARIFICATION:
        return f"it can be understood in several ways, and nobody is there to choose: {text}"
    return text or f"it ended as {last.stage.value}"


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="replace"))


def _cut(text: Any) -> str:
    cleaned = str(text or "").encode(errors="replace").decode()
    return cleaned if len(cleaned) <= KEPT_TEXT else cleaned[: KEPT_TEXT - 1] + "…"
