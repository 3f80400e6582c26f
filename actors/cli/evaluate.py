"""`corral evaluate`: how often the assistant is right, and whether another configuration is better."""

import datetime as dt
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click
import trio
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from actors.assistant import default_config
from actors.assistant_config import AssistantConfig, load_assistant_config
from actors.assistant_library import LibraryError
from actors.configuration import Problem, ScenarioError
from actors.evaluation import ABLATIONS, LEFT_IN, Tell, ablated, chosen, evaluated, open_under_test
from actors.evaluation_report import ALL, Comparison, Graded, compared, interval_text, summary_of
from actors.question_set import load_question_set
from runtime.ids import DEFAULT_TENANT, TenantId
from runtime.process import ProcessError
from runtime.telemetry import configure
from sqlassist.audit import AuditError
from sqlassist.evaluate import QuestionKind, QuestionSet, SetQuestion, Verdict
from sqlassist.execute.errors import DatabaseError

EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3
MOST_SHOWN = 12  # questions of a verdict that are printed; --json has them all
BASE = "as configured"
_HEADS = {
    Verdict.RIGHT: "right",
    Verdict.WRONG: "wrong",
    Verdict.CLARIFIED: "back",
    Verdict.DECLINED: "decl.",
    Verdict.FAILED: "fail",
}
"""A table fits 80 characters; `back` is a question back."""


@attrs.frozen
class _Asked:
    repeats: int
    parallel: int
    tell: Tell


@click.command()
@click.argument("set_files", metavar="SET...", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="As corral assistant serve takes it; without it, the runs made here.",
)
@click.option("--tenant", help="As whom the questions are asked; by default as the set says.")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="The day of the questions, if not the set's.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in QuestionKind]), help="Only these."
)
@click.option(
    "--repeats", default=1, show_default=True, type=click.IntRange(1, 100), help="Ask the whole set so often."
)
@click.option(
    "--parallel", default=1, show_default=True, type=click.IntRange(1, 64), help="At a time; latencies mean less then."
)
@click.option(
    "--ablate", "ablations", multiple=True, type=click.Choice(list(ABLATIONS)), help="Ask again without a part."
)
@click.option(
    "--compare", "other_file", type=click.Path(dir_okay=False, path_type=Path), help="Another CONFIG on the same set."
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there.")
def evaluate(
    set_files: tuple[Path, ...],
    config_file: Path | None,
    tenant: str | None,
    today: dt.datetime | None,
    kinds: tuple[str, ...],
    repeats: int,
    parallel: int,
    ablations: tuple[str, ...],
    other_file: Path | None,
    json_file: Path | None,
) -> None:
    """Ask the questions of SET, a TOML file, and grade the answers by the rows of their right answers.

    Each question is taken out of retrieval before it is asked; verified queries are read and never written.

    \b
    corral evaluate scenarios/questions/sample-metric.toml --config assistant.toml --tenant tenant1
    corral evaluate SET --config C --ablate examples --ablate left-in --repeats 3
    corral evaluate SET --config C --compare C2 --json evaluation.json

    Exit code: 0 done, 2 a file is wrong or does not fit the data, 3 a database or a model failed.
    """  # noqa: D301  # \b is click's mark
    configure(level="error")
    try:
        questions = _merged([load_question_set(path) for path in set_files], set_files)
        day = today.date() if today is not None else dt.date.fromisoformat(questions.today)
        asker = TenantId(tenant or questions.tenant or DEFAULT_TENANT)
        config = load_assistant_config(config_file) if config_file is not None else default_config()
        other = load_assistant_config(other_file) if other_file is not None else None
        picked = chosen(questions, kinds)
        with _progress() as (progress, tell):
            asked = _Asked(repeats, parallel, tell)
            found = trio.run(_evaluated, config, asker, day, picked, asked, tuple(dict.fromkeys(ablations)))
            if other is not None:
                name = _name_of(other_file)
                found[name] = trio.run(_evaluated, other, asker, day, picked, asked, ())[BASE]
            progress.stop()
        prices = dict.fromkeys(found, config.prices)
        if other is not None:
            prices[_name_of(other_file)] = other.prices
        summaries = {name: summary_of(graded, prices[name]) for name, graded in found.items()}
        comparisons = {name: compared(found[BASE], graded) for name, graded in found.items() if name != BASE}
        _print(summaries, comparisons, found[BASE])
        if json_file is not None:
            _write(json_file, set_files, summaries, comparisons, found)
    except ScenarioError as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
        sys.exit(EXIT_WRONG)
    except (OSError, ValueError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    except (ProcessError, LibraryError, AuditError, DatabaseError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)


def _name_of(other_file: Path | None) -> str:
    return f"with {other_file.name}" if other_file is not None else ""


def _merged(sets: list[QuestionSet], files: tuple[Path, ...]) -> QuestionSet:
    """Several files as one set: of one day and one tenant, no id twice."""
    first, *others = sets
    ids = {one.id for one in first.questions}
    problems = []
    for other, file in zip(others, files[1:], strict=True):
        if (other.today, other.tenant) != (first.today, first.tenant):
            problems.append(Problem(f"has another day or tenant than {files[0]}", "$.today", str(file)))
        twice = sorted(ids & {one.id for one in other.questions})
        problems += [Problem(f"{files[0]} or another file has a question {one!r} too", "$", str(file)) for one in twice]
        ids |= {one.id for one in other.questions}
    if problems:
        raise ScenarioError(problems)
    return attrs.evolve(first, questions=tuple(one for each in sets for one in each.questions))


async def _evaluated(
    config: AssistantConfig,
    tenant: TenantId,
    day: dt.date,
    questions: tuple[SetQuestion, ...],
    asked: _Asked,
    ablations: tuple[str, ...],
) -> dict[str, tuple[Graded, ...]]:
    """By what was changed; first of all as configured."""
    async with open_under_test(config, tenant, day) as under_test:
        gold = await under_test.gold(questions)
        found = {}
        for name in (BASE, *ablations):
            ask = under_test.ask(ablated(config.pipeline, name), left_in=name == LEFT_IN)
            label = name if name == BASE else f"ablated: {name}"
            found[label] = await evaluated(
                questions, ask, gold, repeats=asked.repeats, parallel=asked.parallel, tell=asked.tell
            )
        return found


class _progress:  # noqa: N801  # used like the function that it stands for
    def __enter__(self) -> tuple[Progress, Tell]:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn())
        is_watched = sys.stderr.isatty()
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_watched)
        self._progress.start()
        task = self._progress.add_task("asking", total=None)
        return self._progress, lambda done, all_: self._progress.update(task, completed=done, total=all_)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _print(
    summaries: Mapping[str, Mapping[str, Any]], comparisons: Mapping[str, Comparison], graded: tuple[Graded, ...]
) -> None:
    console = Console(highlight=False)
    for name, summary in summaries.items():
        console.print(Text(name, style="bold"))
        console.print(_table(summary))
        for line in _lines(summary):
            console.print(Text(line))
        console.print()
    for name, comparison in comparisons.items():
        console.print(Text(comparison.in_words(BASE, name)))
    for verdict in (Verdict.WRONG, Verdict.FAILED):
        shown = [one for one in graded if one.verdict is verdict]
        for one in shown[:MOST_SHOWN]:
            console.print(Text(f"{verdict}: {one.question.id}: {one.question.wordings[one.wording]}"))
            console.print(Text(f"    {one.outcome.sql or one.outcome.code}"), style="dim")
        if len(shown) > MOST_SHOWN:
            console.print(Text(f"... and {len(shown) - MOST_SHOWN} more that are {verdict}: see --json"))


def _table(summary: Mapping[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for head in ("", "asked", *_HEADS.values(), "right, 95 %"):
        table.add_column(head, no_wrap=True, justify="right" if head else "left")
    for part, label in (("first_wording", "first wording"), ("all_wordings", "all wordings")):
        for kind, tally in summary[part].items():
            if kind != ALL and part == "all_wordings" and len(summary[part]) == 2:
                continue
            row = label if kind == ALL else f"  {kind}"
            counts = (str(tally[verdict.value]) for verdict in Verdict)
            table.add_row(row, str(tally["asked"]), *counts, interval_text(tally["accuracy"]))
    together = summary["all_wordings_right"]
    blank = ("",) * (len(Verdict) - 1)
    table.add_row(
        "every wording",
        str(together["asked"]),
        str(together["right"]),
        *blank,
        interval_text(together["accuracy"]),
    )
    return table


def _lines(summary: Mapping[str, Any]) -> list[str]:
    seconds, tokens, cost = summary["seconds"], summary["tokens"], summary["cost"]
    lines = []
    if summary["right_rows"]:
        share = f"{summary['strictly_equal']} of {summary['right_rows']}"
        lines.append(f"{share} right answers with rows have exactly the columns of a right answer")
    lines.append(
        f"time to the end: p50 {seconds['p50']:.3f} s, p95 {seconds['p95']:.3f} s, longest {seconds['max']:.3f} s"
    )
    if any(tokens.values()):
        lines.append(
            f"tokens a question: {tokens['input']:.0f} in ({tokens['cached']:.0f} cached), {tokens['output']:.0f} out; "
            f"{summary['retries']} second attempts"
        )
    if cost["per_answer"]:
        lines.append(f"an answer costs {cost['per_answer']:.6f} {cost['currency']}")
    runs = summary["runs"]
    if summary["repeats"] > 1:
        shares = ", ".join(f"{share:.1%}".replace("%", " %") for share in runs["accuracies"])
        lines.append(f"run by run: {shares}; {runs['unstable_wordings']} wordings did not end alike in every run")
    for one in summary["failures"][:6]:
        after = f" after {one['after']}" if one["after"] else ""
        lines.append(f"  {one['count']:5} {one['verdict']}{after}" + (f": {one['code']}" if one["code"] else ""))
    return lines


def _write(
    path: Path,
    set_files: tuple[Path, ...],
    summaries: Mapping[str, Any],
    comparisons: Mapping[str, Comparison],
    found: Mapping[str, tuple[Graded, ...]],
) -> None:
    data = {
        "sets": [str(file) for file in set_files],
        "summaries": summaries,
        "comparisons": {name: one.as_json() | {"words": one.in_words(BASE, name)} for name, one in comparisons.items()},
        "asked": {name: [one.as_json() for one in graded] for name, graded in found.items()},
    }
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    click.echo(str(path))
