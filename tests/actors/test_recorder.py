"""The recorder writes whole lines, never waits, drops with a count, and says what the disk said."""

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

from actors.recorder import CAPACITY, Recorder, write_once, write_whole
from actors.results.record import VERSION, Header, decode_header, decode_steps
from actors.scenario import AppConfig, CaptureConfig, RecordConfig
from actors.session import EpisodeSpec
from policies.action import Tap
from policies.frame import Frame
from policies.geometry import Geometry
from policies.step import Command, CommandKind, EpisodeSettings, Note, StepInput, StepOutput
from runtime.ids import DEFAULT_TENANT, EpisodeId, PhoneId
from tests.kit.percepts import percept

SPEC = EpisodeSpec(
    episode=EpisodeId("run-P-0"),
    phone=PhoneId("P"),
    app_name="game",
    app=AppConfig(goal="win", package="dev.game"),
    seed=1,
    tenant=DEFAULT_TENANT,
    settings=EpisodeSettings("win"),
    capture=CaptureConfig(),
    plan_timeout_seconds=3.0,
)


def opened(tmp_path: Path, **config: Any) -> Recorder:
    recorder = Recorder(tmp_path, RecordConfig(**config))
    recorder.open_episode(Header(VERSION, SPEC.episode, "P", "game", 1, "episode", SPEC.settings))
    return recorder


def frame(seq: int) -> Frame:
    return Frame(np.full((64, 36, 3), seq % 250, np.uint8), seq, seq * 0.1, seq * 0.1, Geometry(36, 64))


def feed(recorder: Recorder, count: int) -> None:
    for number in range(count):
        given = StepInput(number, number * 0.1, percept(number, number * 0.1))
        command = Command(number, CommandKind.PLANNED, Tap(18, 32), "plan") if number % 2 else None
        output = StepOutput(command=command, notes=(Note("policies.x.happened", {"n": number}),))
        recorder.step(SPEC, given, output, frame(number))


async def written(recorder: Recorder) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(recorder.run)
        recorder.close()


async def test_every_step_is_written_in_order_and_reads_back(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    feed(recorder, 300)
    recorder.end_episode(SPEC.episode, {"outcome": "succeeded"})

    await written(recorder)

    lines = (tmp_path / "episodes" / SPEC.episode / "steps.jsonl").read_text().splitlines()
    assert decode_header(lines[0]).settings == SPEC.settings
    assert [step.given.step for step in decode_steps(iter(lines[1:]))] == list(range(300))
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["n"] for event in events] == list(range(300))
    assert json.loads((tmp_path / "episodes" / SPEC.episode / "episode.json").read_text()) == {"outcome": "succeeded"}
    assert recorder.statistics().dropped == 0
    assert not list(tmp_path.rglob("*.partial*"))


async def test_display_frames_show_what_was_done_on_them(tmp_path: Path) -> None:
    recorder = opened(tmp_path, frames_every_seconds=1.0)
    feed(recorder, 100)

    await written(recorder)

    shots = [
        json.loads(line) for line in (tmp_path / "episodes" / SPEC.episode / "display.jsonl").read_text().splitlines()
    ]
    assert 10 <= len(shots) <= 21
    acted = [shot for shot in shots if shot["taps"]]
    assert len(acted) > len(shots) / 2
    assert acted[0]["taps"] == [[0.5, 0.5]]
    assert acted[0]["label"] == "tap 18,32 (planned: plan)"
    assert all((tmp_path / "frames" / shot["file"]).stat().st_size > 100 for shot in shots)


async def test_pixels_are_kept_losslessly_where_asked_for(tmp_path: Path) -> None:
    recorder = opened(tmp_path, pixels=True)
    feed(recorder, 5)

    await written(recorder)

    steps = (tmp_path / "episodes" / SPEC.episode / "steps.jsonl").read_text().splitlines()[1:]
    digests = [step.png for step in decode_steps(iter(steps))]
    assert len(set(digests)) == 5
    assert all((tmp_path / "frames" / f"{digest}.png").exists() for digest in digests)


async def test_a_full_queue_drops_counts_and_marks_the_episode(tmp_path: Path) -> None:
    recorder = opened(tmp_path)

    feed(recorder, CAPACITY)  # nobody writes yet: steps and events are twice as many as fit
    statistics = recorder.statistics()

    assert statistics.dropped > CAPACITY / 2
    assert statistics.incomplete == {SPEC.episode}
    await written(recorder)
    assert recorder.statistics().written == CAPACITY


async def test_after_the_disk_refused_nothing_is_written_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = opened(tmp_path)

    def full(batch: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "steps.jsonl")

    monkeypatch.setattr(recorder, "_write_batch", full)
    feed(recorder, 10)

    await written(recorder)

    statistics = recorder.statistics()
    assert statistics.failure == "No space left on device (steps.jsonl)"
    assert (statistics.written, statistics.incomplete) == (0, frozenset({SPEC.episode}))


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a" / "file"
    write_whole(target, b"old")

    def broken(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(OSError, match="No space"):
        write_whole(target, b"new")

    monkeypatch.undo()
    assert target.read_bytes() == b"old"
    assert list(target.parent.iterdir()) == [target]
    write_once(target, b"newer")
    assert target.read_bytes() == b"old"
