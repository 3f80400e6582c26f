"""Run folders as a run leaves them, with one short recorded episode."""

import json
from pathlib import Path
from typing import Any

import attrs

from actors.results.record import VERSION, Header, encode_header, encode_step
from actors.results.summary import summary_for
from policies.criteria import Criteria, Outcome
from policies.episode import EpisodePolicy
from policies.step import EpisodeSettings, Limits, StepInput
from policies.tally import Tally
from runtime.ids import EpisodeId
from tests.kit.percepts import percept, reply

EPISODE = "run-P-0"
HOSTILE = '<script>alert(1)</script> & "quotes" \x00\x1b[31m ]]> {{ 7 * 7 }}'
RUN = {
    "run": "20260101T000000Z-abcdef", "scenario": "test", "description": HOSTILE, "started_at": 1767225600.0,
    "seed": 1, "tenant": "default", "goals": {"game": HOSTILE}, "criteria": {},
    "corral": "0", "python": "3", "machine": "m",
}  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "phone": "P", "episode": "run-P-0", "app": "game", "seed": 1, "bot": "planned", "outcome": Outcome.SUCCEEDED,
        "reason": "ok", "score": 3.0, "captures": [0.01], "plans": [0.3], "acts": [0.02], "engines": ["e"],
        "models": ["rehearsal-7b"], "replayable": True,
    }  # fmt: skip
    values.update(changes)
    tally = values.pop("tally", Tally(steps=10, planned=4, active_seconds=10.0, stall_seconds=1.0))
    return json.loads(json.dumps(attrs.asdict(summary_for(tally, **values))))  # type: ignore[no-any-return]


def run_folder(tmp_path: Path, *, steps: int = 20, ended: bool = True) -> Path:
    """A run with one recorded episode."""
    folder = tmp_path / "run"
    episode = folder / "episodes" / "run-P-0"
    episode.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(RUN))
    settings = EpisodeSettings("win", limits=Limits(steps=steps), criteria=Criteria(min_score=1))
    policy = EpisodePolicy(settings, EpisodeId("run-P-0"))
    lines = [encode_header(Header(VERSION, "run-P-0", "P", "game", 1, "episode", settings))]
    request = None
    for number in range(steps):
        plan = reply(request, "T500,500") if request is not None else None
        given_ = StepInput(
            number, 5 + number * 0.2, percept(number, 5 + number * 0.2 - 0.05), plan=plan, score=float(number)
        )
        output = policy.step(given_)
        request = output.request
        lines.append(encode_step(given_, output))
    (episode / "steps.jsonl").write_text("\n".join(lines) + "\n")
    if ended:
        (episode / "episode.json").write_text(json.dumps(row(reason=HOSTILE)))
    return folder
