"""What the API shows of findings, and which of them come and go between attempts at one run."""

from collections.abc import Mapping
from typing import Any

import attrs

from actors.farm.config import PricesConfig
from actors.farm.costs import Usage, costs_view
from actors.farm.records import AttemptRecord
from actors.farm.views import moment
from actors.farm.work import AttemptOutcome
from actors.results.findings_store import Example, Finding

VERDICTS = (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED)


def is_flaky(finding: Finding, attempts: Mapping[str, AttemptRecord]) -> bool:
    """It was seen in one attempt at a run, and not in another one: they have the same scenario and seed.

    Args:
        finding: Its counts are by attempt.
        attempts: Those, and all others of the same runs. Only what was played to its end and read says anything.
    """
    judged = [one for one in attempts.values() if one.outcome in VERDICTS and one.usage is not None]
    seen = {one.run for one in judged if one.attempt in finding.counts}
    return any(one.run in seen and one.attempt not in finding.counts for one in judged)


def finding_view(
    finding: Finding, usage: Usage | None, prices: PricesConfig, attempts: Mapping[str, AttemptRecord]
) -> dict[str, Any]:
    """One finding with its examples.

    Args:
        finding: What.
        usage: Of the episodes in which it was seen.
        prices: Of the farm.
        attempts: Those in which it was seen, and others of the same runs.
    """
    seen = [attempts[one] for one in finding.counts if one in attempts]
    began = sorted(one.started_at for one in seen)
    is_complete = len(seen) == len(finding.counts) and all(one.usage is not None for one in seen)
    examples = [_example(one, attempts) for one in finding.examples]
    return {
        "id": finding.signature,
        "kind": finding.kind.value,
        "app": finding.app,
        "title": finding.title,
        "state": finding.state.value,
        "regressed": finding.regressed,
        "first_seen": moment(began[0]) if began else None,
        "last_seen": moment(began[-1]) if began else None,
        "count": finding.count,
        "runs": sorted({one.run for one in seen}),
        "flaky": is_flaky(finding, attempts),
        "note": finding.note,
        "example": examples[0] if examples else None,
        "examples": examples,
        "costs": costs_view(usage or Usage(), prices, is_complete=is_complete),
    }


def _example(one: Example, attempts: Mapping[str, AttemptRecord]) -> dict[str, Any]:
    run = attempts[one.run].run if one.run in attempts else one.run
    return {**attrs.asdict(one), "run": run, "attempt": one.run}
