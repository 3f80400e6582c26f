"""The actor takes rows without waiting, drops with a count, and goes on when the disk does again."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from actors.pictures import PictureStore
from actors.scenario import AppConfig, CaptureConfig
from actors.session import EpisodeSpec
from actors.warehouse import spool
from actors.warehouse.rows import Row
from actors.warehouse.spool import loadable_segments, read_rows
from actors.warehouse.warehouse import CAPACITY, RETRY_SECONDS, BothSinks, RunIds, Warehouse
from policies.action import Tap
from policies.frame import Frame
from policies.planner import PlanRequest
from policies.step import ActResult, Command, CommandKind, EpisodeSettings, StepInput, StepOutput
from policies.tally import Tally
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


def made(folder: Path) -> Warehouse:
    return Warehouse(folder, RunIds("default", "r1", "s"), wall=lambda: 1_800_000_000.0)


def feed(warehouse: Warehouse, count: int) -> None:
    for number in range(count):
        result = (ActResult(number - 1, 0.0, 0.01),) if number else ()
        command = Command(number, CommandKind.REFLEX, Tap(18, 32), "rule")
        given = StepInput(number, number * 0.1, percept(number, number * 0.1), result)
        warehouse.step(SPEC, given, StepOutput(command=command), None)


async def until(holds: Callable[[], bool]) -> None:
    """The clock jumps while a thread works, so this counts turns and not seconds."""
    for _ in range(100_000):
        if holds():
            return
        await trio.sleep(0.1)
    raise AssertionError("it never came")


def _has_lost(warehouse: Warehouse, count: int) -> bool:
    return warehouse.statistics().lost == count


async def finished(warehouse: Warehouse) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(warehouse.run)
        warehouse.close()


def rows_in(folder: Path, table: str) -> list[Row]:
    found = [row for path in loadable_segments(folder / "spool" / "default") for row in read_rows(path)]
    return [row for row in found if row is not None and row["t"] == table]


async def test_steps_actions_and_the_episode_become_rows(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    warehouse = made(tmp_path)
    feed(warehouse, 3)
    warehouse.end_episode(
        SPEC, Tally(steps=3), {"outcome": "succeeded"}, [{"kind": "crash", "process": "", "cause": "x"}]
    )
    warehouse.run_row(at_ms=5, state="ended")

    await finished(warehouse)

    assert [row["step"] for row in rows_in(tmp_path, "steps")] == [0, 1, 2]
    assert [row["outcome"] for row in rows_in(tmp_path, "actions")] == ["executed", "executed", "lost"]
    assert [(row["outcome"], row["steps"]) for row in rows_in(tmp_path, "episodes")] == [("succeeded", 3)]
    assert [row["fault"] for row in rows_in(tmp_path, "faults")] == ["crash"]
    assert [(row["at_ms"], row["lost_rows"]) for row in rows_in(tmp_path, "runs")] == [(5, 0)]
    assert warehouse.statistics() == attrs.evolve(warehouse.statistics(), written=9, lost=0, failure=None)


async def test_rows_are_durable_before_the_run_ends(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    warehouse = made(tmp_path)
    async with trio.open_nursery() as nursery:
        await nursery.start(warehouse.run)
        feed(warehouse, 2)
        await until(lambda: warehouse.statistics().written > 0)
        (path,) = (tmp_path / "spool" / "default").iterdir()
        lines = len(path.read_bytes().splitlines())
        warehouse.close()

    assert lines == 4, "the header, two steps, and the action that has a result"


async def test_a_segment_that_nothing_is_added_to_is_sealed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    warehouse = made(tmp_path)
    async with trio.open_nursery() as nursery:
        await nursery.start(warehouse.run)
        feed(warehouse, 2)
        await until(lambda: len(rows_in(tmp_path, "steps")) == 2)
        warehouse.close()


async def test_a_full_mailbox_drops_and_counts(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    warehouse = made(tmp_path)
    with capture_logs() as logs:
        feed(warehouse, CAPACITY + 50)
    assert warehouse.statistics().lost == 50

    await finished(warehouse)

    assert len(rows_in(tmp_path, "steps")) == CAPACITY
    assert [(row["kind"], row["lost_rows"]) for row in rows_in(tmp_path, "losses")] == [("step", 50)]
    assert [entry["event"] for entry in logs] == ["actors.warehouse.rows_dropped"]


async def test_a_disk_that_refuses_is_told_once_and_everything_lost_is_counted(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = made(tmp_path)

    def full(_file: Any, _text: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            await nursery.start(warehouse.run)
            with monkeypatch.context() as patched:
                patched.setattr(spool, "_write", full)
                for count in (1, 2, 3):
                    feed(warehouse, 1)
                    await until(partial(_has_lost, warehouse, count))
            assert warehouse.statistics().failure == "No space left on device"
            await trio.sleep(RETRY_SECONDS)
            feed(warehouse, 1)
            await until(lambda: warehouse.statistics().failure is None)
            warehouse.close()

    events = [entry["event"] for entry in logs]
    assert events == ["actors.warehouse.failed", "actors.warehouse.recovered"]
    assert "free the disk" in logs[0]["remedy"]
    assert warehouse.statistics().lost == 3
    assert len(rows_in(tmp_path, "steps")) == 1
    assert sum(row["lost_rows"] for row in rows_in(tmp_path, "losses")) == 3
    assert {row["reason"] for row in rows_in(tmp_path, "losses")} == {"No space left on device"}


async def test_an_unwritable_folder_stops_no_run(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    (tmp_path / "spool").write_text("a file is in the way")
    warehouse = made(tmp_path)
    feed(warehouse, 10)
    with capture_logs() as logs:
        await finished(warehouse)

    assert warehouse.statistics().lost == 19, "10 steps, and 9 actions whose results had come"
    assert [entry["event"] for entry in logs] == ["actors.warehouse.failed"]


def test_two_sinks_are_both_told(tmp_path: Path) -> None:
    class Counting:
        steps = prompts = 0

        def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
            self.steps += 1

        def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
            self.prompts += 1

    one, other = Counting(), Counting()
    both = BothSinks(one, other)
    both.step(SPEC, StepInput(0, 0.0, None), StepOutput(), None)
    both.prompt(SPEC, None, None)  # type: ignore[arg-type]

    assert (one.steps, one.prompts, other.steps, other.prompts) == (1, 1, 1, 1)
