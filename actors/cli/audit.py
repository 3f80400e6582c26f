"""`corral audit`: read and verify the trail of every question and query."""

import csv
import json
import sys
from pathlib import Path

import click

from sqlassist.audit import AuditError, Record, read_audit, verify_audit

EXIT_TAMPERED = 1
EXIT_WRONG = 2

FOLDER = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.group()
def audit() -> None:
    """The audit trail. It holds questions and SQL of all tenants: its files are for their owner alone."""


@audit.command()
@FOLDER
@click.option("--expect", default="", metavar="NUMBER:HASH", help="A head that was written down earlier.")
def verify(folder: Path, expect: str) -> None:
    """Check every record of the trail in FOLDER, and print its head, to be written down where nobody can change it.

    Exit code: 0 whole, 1 changed, cut or with gaps, 2 it cannot be read.
    """
    try:
        found = verify_audit(folder, expect)
    except AuditError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    for problem in found.problems:
        click.echo(problem)
    click.echo(f"{found.records} records, head {found.head}")
    if found.problems:
        sys.exit(EXIT_TAMPERED)


@audit.command()
@FOLDER
@click.option("-n", "count", default=10, show_default=True, type=click.IntRange(1, 100_000), help="How many.")
def tail(folder: Path, count: int) -> None:
    """Show the last records of the trail in FOLDER, a line each; what would break a line is escaped.

    Exit code: 0 shown, 2 it cannot be read or is no trail.
    """
    try:
        _must_be_trail(folder)
        for record in read_audit(folder, last=count):
            entry = record.entry
            what = entry["sql"] or entry["draft"]
            verdict = entry["verdict"] + (f" {entry['code']}" if entry["code"] else "")
            line = f"{record.number} {record.at} {entry['tenant']} {entry['user'] or '-'} {verdict}: {what}"
            click.echo(_on_one_line(line))
    except AuditError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)


@audit.command()
@FOLDER
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--tenant", help="Of this tenant alone.")
def export(folder: Path, form: str, tenant: str | None) -> None:
    """Write the records of the trail in FOLDER to standard output.

    Exit code: 0 written, 2 it cannot be read or is no trail.
    """
    try:
        _must_be_trail(folder)
        records = [r for r in read_audit(folder) if tenant is None or r.entry["tenant"] == tenant]
    except AuditError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    if form == "jsonl":
        for record in records:
            click.echo(json.dumps(_flat(record), ensure_ascii=False))
        return
    writer: csv.DictWriter[str] | None = None
    for record in records:
        row = {key: _plain(value) for key, value in _flat(record).items()}
        if writer is None:
            writer = csv.DictWriter(sys.stdout, fieldnames=list(row))
            writer.writeheader()
        writer.writerow(row)


def _must_be_trail(folder: Path) -> None:
    if not (folder / "head").exists() and not any(folder.glob("audit-*.jsonl")):
        raise AuditError(f"{folder}: there is no audit trail")


def _on_one_line(text: str) -> str:
    """Drafts are anybody's text: one could forge a line of the trail, or steer the terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode("ascii") for c in text
    )


def _flat(record: Record) -> dict[str, object]:
    return {"number": record.number, "at": record.at, **record.entry, "hash": record.hash}


def _plain(value: object) -> object:
    """A spreadsheet runs a cell that begins like a formula: such text gets a quote before it."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return value
