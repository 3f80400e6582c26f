"""What a client sends to submit a run: JSON → `Work`, every mistake at once. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from actors.configuration import Problem, ScenarioError, structured
from actors.farm.afterwards import zone_problem
from actors.farm.inline import inline_problems
from actors.farm.work import MAX_PRIORITY, Daily, OnInterrupt, Work
from actors.scenario import ReplayPhones, Scenario, parse_scenario
from runtime.ids import TenantId, is_legal_id

MAX_LABELS = 20
_NAME = {"pattern": r"(?!\.)[A-Za-z0-9._-]{1,80}", "means": "the name of a scenario, without a folder and .toml"}


@attrs.frozen
class Submission:
    """The body of `POST /api/v1/runs`."""

    scenario: str | None = attrs.field(default=None, metadata=_NAME)
    """Name of a file in the farm's folder of scenarios, without `.toml`."""
    text: str | None = None
    """The scenario itself, as TOML; it may name no files, commands, addresses, secrets, phones and engines."""
    labels: tuple[str, ...] = ()
    priority: int = attrs.field(default=5, metadata={"min": 0, "max": MAX_PRIORITY})
    not_before: str | None = None
    """ISO 8601 with its offset: `2027-01-31T22:00:00+08:00`."""
    daily: Daily | None = None
    repeats: int = attrs.field(default=0, metadata={"min": 0, "max": 10})
    on_interrupt: OnInterrupt = OnInterrupt.REQUEUE


def parse_submission(data: Mapping[str, Any]) -> Submission:
    """Read a body.

    Raises:
        ScenarioError: with every mistake, each with its path.
    """
    found, problems = structured(data, Submission)
    if found is None:
        raise ScenarioError(problems)
    if (found.scenario is None) == (found.text is None):
        problems.append(Problem("give either 'scenario' or 'text'", "$"))
    if found.text is not None:
        problems += [attrs.evolve(one, file="text") for one in inline_problems(found.text)]
    if len(found.labels) > MAX_LABELS:
        problems.append(Problem(f"'labels' has more than {MAX_LABELS}", "$.labels"))
    problems += [
        Problem(f"{one[:60]!r} is not a legal name", "$.labels") for one in found.labels if not is_legal_id(one)
    ]
    if found.daily is not None and (why := zone_problem(found.daily.zone)) is not None:
        problems.append(Problem(why, "$.daily.zone"))
    if found.daily is not None and found.not_before is not None:
        problems.append(Problem("'not_before' and 'daily' exclude each other", "$.not_before"))
    if found.not_before is not None and _moment(found.not_before) is None:
        text = "'not_before' must be a time with its offset, like 2027-01-31T22:00:00+08:00"
        problems.append(Problem(f"{text}: {found.not_before[:40]!r}", "$.not_before"))
    if problems:
        raise ScenarioError(problems)
    return found


def work_for(
    found: Submission, source: bytes, *, tenant: TenantId, user: str, overrides: Mapping[str, str] | None = None
) -> Work:
    """The work that a submission asks for.

    Args:
        found: As parsed.
        source: The scenario: the named file's content, or the text.
        tenant: Of the token; what the scenario says of tenants does not count.
        user: Of the token.
        overrides: What the farm says instead of the scenario, whatever phones it gets: its engines.

    Raises:
        ScenarioError: the scenario is wrong, or needs phones that no farm has.
    """
    name = f"{found.scenario}.toml" if found.scenario is not None else "text"
    scenario = parse_scenario(source, name, dict(overrides or {}))
    problems = [
        Problem("recorded pictures are no phones of a farm: play them with corral run", f"$.phones[{index}]", name)
        for index, group in enumerate(scenario.phones)
        if isinstance(group, ReplayPhones)
    ]
    if problems:
        raise ScenarioError(problems)
    return Work(
        tenant=tenant,
        user=user,
        scenario=found.scenario if found.scenario is not None else scenario.name,
        phones=phones_of(scenario),
        text=found.text,
        labels=tuple(sorted(set(found.labels))),
        priority=found.priority,
        not_before=None if found.not_before is None else _moment(found.not_before),
        daily=found.daily,
        repeats=found.repeats,
        on_interrupt=found.on_interrupt,
    )


def phones_of(scenario: Scenario) -> int:
    """How many phones it plays on."""
    return sum(group.phone_count for group in scenario.phones)


def _moment(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text)
        return None if found.tzinfo is None else found.timestamp()
    except (ValueError, OverflowError):
        return None
