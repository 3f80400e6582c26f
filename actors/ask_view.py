"""Shows events of an answer as they come: to people in a terminal, to programs as JSON lines."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from actors.ask_chart import terminal_chart
from sqlassist.messages import Event, Stage

MOST_ROWS = 40  # are shown; the rest is counted
MOST_CELL = 60  # characters of a cell


@attrs.frozen
class Choice:
    """One way to understand a question."""

    id: str
    label: str


@attrs.define(eq=False)
class Seen:
    """What one answer said, as far as a later question may refer to it."""

    sql: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[Sequence[Any], ...] = ()
    chart: Mapping[str, Any] | None = None
    choices: tuple[Choice, ...] = ()
    last: Event | None = None

    def take(self, event: Event) -> None:
        """Remember an event."""
        data = event.data
        match event.stage:
            case Stage.SQL:
                self.sql = str(data.get("sql", ""))
            case Stage.ROWS:
                self.sql = str(data.get("sql", self.sql))
                self.columns = tuple(map(str, data.get("columns", ())))
                rows = tuple(data.get("rows", ()))
                self.rows = (*self.rows, *rows) if data.get("offset") else rows  # large answers come in pieces
            case Stage.CHART:
                spec = data.get("spec")
                self.chart = spec if isinstance(spec, Mapping) else None
            case Stage.CLARIFICATION:
                self.choices = tuple(Choice(str(one["id"]), str(one["label"])) for one in data.get("choices", ()))
        if event.is_last:
            self.last = event


@attrs.define(eq=False)
class TerminalView:
    """For people. What comes from databases and models is data: it neither styles nor steers the terminal."""

    console: Console
    seen: Seen = attrs.field(factory=Seen)
    _is_in_line: bool = attrs.field(default=False, init=False)

    def begin(self) -> None:
        """A new question."""
        self.seen = Seen()

    async def take(self, event: Event) -> None:
        """Show an event."""
        self.seen.take(event)
        data = event.data
        if event.stage is Stage.DELTA:
            self._is_in_line = True
            self.console.print(Text(clean(data.get("text", "")), style="dim"), end="")
            return
        if self._is_in_line:
            self._is_in_line = False
            self.console.print()
        match event.stage:
            case Stage.RESOLVED:
                self._tell("understood as: ", data.get("text"))
            case Stage.INTENT:
                self._tell("", f"{data.get('route', '')} - {data.get('why', '')}")
            case Stage.SCOPE:
                names = ", ".join(str(table.get("name", "")) for table in data.get("tables", ()))
                self._tell(f"from {clean(data.get('source', ''))}: ", names)
            case Stage.SQL:
                sql = clean(data.get("sql", ""), keep_lines=True)
                self.console.print(Syntax(sql, "sql", background_color="default", word_wrap=True))
            case Stage.CHECK if data.get("verdict") != "pass":
                self._tell("refused: ", f"{data.get('code', '')}: {data.get('hint', '')}")
            case Stage.ROWS if not data.get("more"):
                self._rows(bool(data.get("truncated")))
            case Stage.CHART:
                spec = self.seen.chart or {}
                for line in terminal_chart(self.seen.columns, self.seen.rows, spec, self.console.width):
                    self.console.print(Text(clean(line), style="cyan"))
            case Stage.SUMMARY:
                self.console.print(Text(clean(data.get("text", ""), keep_lines=True)))
            case _ if event.is_last:
                self._last(event)

    def _last(self, event: Event) -> None:
        data = event.data
        text = clean(data.get("text", ""), keep_lines=True)
        match event.stage:
            case Stage.ANSWER:
                if not self.seen.columns:
                    self.console.print(Text(text))
                parts = [f"{data['rows']} rows" if "rows" in data else "", f"{data['ms']} ms" if "ms" in data else ""]
                parts += ["cached" if data.get("cached") else "", str(data.get("route", ""))]
                self._tell("", " · ".join(part for part in parts if part))
            case Stage.CLARIFICATION:
                self.console.print(Text(text, style="bold"))
                for number, choice in enumerate(self.seen.choices, start=1):
                    self.console.print(Text(f"  {number}  {clean(choice.label)}"))
            case Stage.REFUSAL:
                self.console.print(Text(f"{text or clean(data.get('code', ''))}", style="yellow"))
            case Stage.FAILED:
                wait = f" Again in {data['retry_after']:.0f} s." if "retry_after" in data else ""
                self.console.print(Text(f"{text or clean(data.get('code', ''))}{wait}", style="red"))
            case _:
                self._tell("", "cancelled")

    def _rows(self, is_truncated: bool) -> None:
        table = Table(box=None, header_style="bold")
        for name in self.seen.columns:
            table.add_column(Text(clean(name)))
        for row in self.seen.rows[:MOST_ROWS]:
            table.add_row(*(Text(_cell(value)) for value in row))
        self.console.print(table)
        more = len(self.seen.rows) - MOST_ROWS
        if more > 0 or is_truncated:
            told = f"{more} more rows are not shown" if more > 0 else ""
            self._tell("", "; ".join(part for part in (told, "there may be more" * is_truncated) if part))

    def _tell(self, label: str, text: object) -> None:
        told = clean(text)
        if told:
            self.console.print(Text(label + told, style="dim"))


@attrs.define(eq=False)
class JsonView:
    """For programs: one JSON object a line, `{"id", "stage", "data", "last"}`."""

    console: Console
    question: str = ""
    seen: Seen = attrs.field(factory=Seen)

    async def take(self, event: Event) -> None:
        """Write an event."""
        self.seen.take(event)
        line = {"id": self.question, "stage": event.stage.value, "data": dict(event.data), "last": event.is_last}
        self.console.file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.console.file.flush()


def clean(text: object, *, keep_lines: bool = False) -> str:
    """Text of others without what steers a terminal."""
    kept = "\n" if keep_lines else ""
    return "".join(
        character if character.isprintable() or character in kept else " " if character in "\n\t" else "�"
        for character in str(text)
    )


def _cell(value: object) -> str:
    text = "" if value is None else clean(value)
    return text if len(text) <= MOST_CELL else text[: MOST_CELL - 1] + "…"
