"""Reads a run folder, also one that a kill left half written."""

import json
from pathlib import Path
from typing import Any

import attrs

from actors.results.checked import row_problems, run_problems
from actors.results.record import RecordUnreadable
from actors.results.replay import read_header, replay_episode
from actors.results.summary import EpisodeSummary, summary_for
from policies.criteria import Outcome

INTERRUPTED = "the run ended before the episode did"


def read_run(folder: Path) -> dict[str, Any]:
    """What `run.json` says.

    Raises:
        RecordUnreadable: the folder is no run, or the file is damaged; the text says what is missing.
    """
    try:
        run: dict[str, Any] = json.loads((folder / "run.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordUnreadable(f"{folder} is no run folder: run.json: {error}") from error
    problems = run_problems(run)
    if problems:
        raise RecordUnreadable(f"{folder / 'run.json'} is damaged: {'; '.join(problems)}")
    return run


def read_episodes(folder: Path) -> list[dict[str, Any]]:
    """One summary row an episode, by phone; those without a whole one are made from their record by replaying it.

    A run that was stopped before its first episode has none.

    Raises:
        RecordUnreadable: a record is broken in its middle.
    """
    found = sorted(path.parent for path in folder.glob("episodes/*/steps.jsonl"))
    rows = [_read_row(episode) or attrs.asdict(interrupted_summary(episode)) for episode in found]
    return sorted(rows, key=lambda row: (row["phone"], row["episode"]))


def _read_row(episode: Path) -> dict[str, Any] | None:
    """What `episode.json` says; None where it is missing or damaged."""
    try:
        row: dict[str, Any] = json.loads((episode / "episode.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return None if row_problems(row, episode.name) else row


def interrupted_summary(episode: Path) -> EpisodeSummary:
    """The numbers of an episode whose end was not written.

    Raises:
        RecordUnreadable: not even its header can be read.
    """
    header = read_header(episode)
    replay = replay_episode(episode)
    return summary_for(
        replay.tally,
        phone=header.phone,
        episode=episode.name,
        app=header.app,
        seed=header.seed,
        bot="random" if header.policy == "random" else "planned",
        outcome=Outcome.CANCELLED,
        reason=INTERRUPTED,
        score=replay.score,
        captures=replay.captures,
        plans=replay.plans,
        acts=replay.acts,
        engines=replay.engines,
        models=replay.models,
        replayable=not replay.differences,
    )
