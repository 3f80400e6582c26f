"""No run folder goes before it was read for findings, as far as the disk allows it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from actors.farm import housekeeping
from actors.farm.attempt import AttemptFiles
from actors.farm.config import RetentionConfig
from actors.farm.daemon import Farm, open_farm
from actors.farm.housekeeping import retain
from actors.farm.record_reader import RecordReader
from tests.kit.farm import PROGRAM, farm_config, submit, wait_over, write_scenario
from tests.kit.farm_records import CRASH, leave, wait_read

OLD = RetentionConfig(succeeded_days=1, failed_days=1, other_days=1)
TIGHT = RetentionConfig(disk_gb=1e-9)
LATER = 2 * 86_400.0


class ReaderThatHangs(RecordReader):
    """Never done with a scan."""

    async def scan(self, **_: Any) -> dict[str, Any]:
        await trio.sleep_forever()
        raise AssertionError("it was woken")


@asynccontextmanager
async def farm_with_unread(folder: Path, *, hangs: bool = False) -> AsyncIterator[tuple[Farm, str, Path]]:
    """A farm with a run that is over and was not read: its tenant's file is damaged, or the reader hangs."""
    write_scenario(folder, "game", "code=1")
    leave(folder)
    file = folder / "farm" / "findings" / "games.json"
    file.parent.mkdir(parents=True)
    if not hangs:
        file.write_text("{")
    async with open_farm(farm_config(folder), program=PROGRAM) as farm:
        if hangs:
            farm.findings.reader = ReaderThatHangs()
        with capture_logs() as logs:
            run = (await submit(farm, "game")).run
            await wait_over(farm, run)
            with trio.fail_after(60):
                while not hangs and not any(one["event"] == "actors.farm.scan_failed" for one in logs):
                    await trio.sleep(0.02)
        yield farm, run, file


async def test_what_could_not_be_read_is_tried_again_however_busy_the_farm_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.farm.findings_desk.RETRY_SECONDS", 1.0)
    async with farm_with_unread(tmp_path) as (farm, run, file), trio.open_nursery() as nursery:

        async def runs_end_all_the_time() -> None:
            while True:
                farm.findings.look_again()
                await trio.sleep(0.1)

        nursery.start_soon(runs_end_all_the_time)
        file.unlink()
        await wait_read(farm, run)
        nursery.cancel_scope.cancel()


async def test_one_that_is_pinned_while_others_go_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scenario(tmp_path, "good")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        runs = []
        for _ in range(2):
            runs.append((await submit(farm, "good")).run)
            await wait_over(farm, runs[-1])
            await wait_read(farm, runs[-1])
        first, second = runs
        remove = AttemptFiles.remove

        def remove_and_pin(files: AttemptFiles) -> None:
            remove(files)
            trio.from_thread.run(farm.store.do, lambda store: store.pin(second, pinned=True))

        monkeypatch.setattr(AttemptFiles, "remove", remove_and_pin)
        gone, _ = await retained(farm, OLD, LATER)

        assert gone == [first]
        assert farm.files(second).folder.is_dir()


async def retained(farm: Farm, config: RetentionConfig, after: float = 0.0) -> tuple[list[str], list[Any]]:
    """What went, and the events that tell of it."""
    with capture_logs() as logs:
        gone = await retain(config, farm.folder, farm.store, farm.findings, farm.clock() + after)
    return gone, [one for one in logs if one["event"].endswith("folder_removed")]


async def test_what_was_not_read_does_not_go_by_its_age_and_does_once_it_was(tmp_path: Path) -> None:
    async with farm_with_unread(tmp_path) as (farm, run, file):
        assert await retained(farm, OLD, LATER) == ([], [])
        assert farm.files(run).folder.is_dir()
        file.unlink()
        await farm.findings.read_now([run], 60.0)
        await wait_read(farm, run)

        assert (await retained(farm, OLD, LATER))[0] == [run]
        assert CRASH["cause"] in {one.title for one in (await farm.findings.load("games")).findings.values()}


async def test_what_the_disk_budget_takes_is_read_before(tmp_path: Path) -> None:
    async with farm_with_unread(tmp_path) as (farm, run, file):
        file.unlink()
        gone, told = await retained(farm, TIGHT)
        (attempt,) = await farm.store.do(lambda store: store.attempts(run))

        assert gone == [run]
        assert [(one["event"], one["log_level"]) for one in told] == [("actors.farm.folder_removed", "info")]
        assert attempt.usage is not None
        assert CRASH["cause"] in {one.title for one in (await farm.findings.load("games")).findings.values()}


@pytest.mark.parametrize("hangs", [False, True])
async def test_what_cannot_be_read_in_time_goes_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(housekeeping, "READ_SECONDS", 0.5)
    async with farm_with_unread(tmp_path, hangs=hangs) as (farm, run, _):
        gone, (told,) = await retained(farm, TIGHT)
        (attempt,) = await farm.store.do(lambda store: store.attempts(run))

        assert gone == [run]
        assert (told["event"], told["log_level"]) == ("actors.farm.unread_folder_removed", "warning")
        assert (told["attempt"], "\n" in told["why"], "could not be read" in told["why"]) == (run, False, True)
        assert not farm.files(run).folder.exists()
        assert attempt.removed is not None
        assert await retained(farm, TIGHT) == ([], [])


async def test_what_is_pinned_while_it_is_read_stays(tmp_path: Path) -> None:
    async with farm_with_unread(tmp_path) as (farm, run, file):
        file.unlink()
        read = farm.findings.reader.scan

        class ReaderMeanwhile(RecordReader):
            async def scan(self, **job: Any) -> dict[str, Any]:
                await farm.store.do(lambda store: store.pin(run, pinned=True))
                return await read(**job)

        farm.findings.reader = ReaderMeanwhile()

        assert await retained(farm, TIGHT) == ([], [])
        assert farm.files(run).folder.is_dir()


async def test_a_broken_record_counts_as_read_and_goes_by_its_age(tmp_path: Path) -> None:
    write_scenario(tmp_path, "game", "code=1")
    template = leave(tmp_path)
    (template / "episodes" / "run-P-0" / "steps.jsonl").write_text('{"version": 1}\nnothing\nnothing\n')
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        run = (await submit(farm, "game")).run
        await wait_over(farm, run)
        await wait_read(farm, run)

        assert (await retained(farm, OLD, LATER))[0] == [run]


async def test_a_removed_folder_that_was_not_read_is_not_looked_for_again(tmp_path: Path) -> None:
    async with farm_with_unread(tmp_path) as (farm, run, file):
        assert (await retained(farm, TIGHT))[0] == [run]
        file.unlink()
        await farm.findings.read_now([run], 60.0)
        await wait_read(farm, run)
        (attempt,) = await farm.store.do(lambda store: store.attempts(run))

        assert attempt.usage is None  # what it used is not known, and is not nothing
        assert await farm.store.do(lambda store: store.scans.unscanned()) == []
