"""`corral doctor`: looks at the host before a night is lost on it."""

import json
import sys
from pathlib import Path

import attrs
import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from actors.checkup import Finding, Verdict, worst
from actors.checkup_probe import run_examination
from actors.cli.scenarios import load
from runtime.telemetry import configure

EXIT_SICK = 1
_STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "bold red"}


@click.command()
@click.argument("scenario_file", metavar="[SCENARIO]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--phones", type=click.IntRange(1, 10_000), help="To be carried; else as SCENARIO says, or 8.")
@click.option("--out", default=Path("runs"), show_default=True, type=click.Path(path_type=Path), help="Of run folders.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line a finding.")
def doctor(scenario_file: Path | None, phones: int | None, out: Path, as_json: bool) -> None:
    """Check this host: Python, adb, keys, limits, memory, disk; with SCENARIO also its phones and engines.

    Every finding says what to do. Nothing is changed; an adb server of our own is started and stopped, others are left
    alone.

    Exit code: 0 all is well (warnings too), 1 something will not work, 2 SCENARIO is wrong.
    """
    configure(json=as_json, level="error")
    scenario = None if scenario_file is None else load(scenario_file, {})[0]
    count = phones or (8 if scenario is None else sum(group.phone_count for group in scenario.phones))
    findings = run_examination(scenario, out=out, phones=count)
    if as_json:
        for finding in findings:
            click.echo(json.dumps(attrs.asdict(finding)))
    else:
        _show(findings)
    sys.exit(EXIT_SICK if worst(findings) is Verdict.FAILED else 0)


def _show(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "checked", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        style = _STYLES[finding.verdict]
        texts = (finding.subject, finding.found, finding.advice)
        table.add_row(f"[{style}]{finding.verdict}[/]", *map(escape, texts))
    Console().print(table)
