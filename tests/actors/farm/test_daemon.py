"""The farm at work, with processes that stand in for `corral run`."""

import time
from pathlib import Path

import attrs
import pytest
import trio

from actors.farm.config import AdbPool, RetentionConfig
from actors.farm.daemon import Farm, open_farm
from actors.farm.database import FarmRuns
from actors.farm.housekeeping import retain
from actors.farm.records import WHOLE_FARM, AttemptRecord
from actors.farm.store import Refused
from actors.farm.submission import parse_submission
from actors.farm.work import AttemptOutcome, RunState
from runtime.ids import TenantId
from tests.kit.farm import PROGRAM, SCENARIO, farm_config, submit, wait_over, wait_playing, wait_run, write_scenario
from tests.kit.farm_records import wait_read


async def attempts_of(farm: Farm, run: str) -> list[AttemptRecord]:
    return await farm.store.do(lambda store: store.attempts(run))


async def test_a_run_plays_on_phones_of_its_own_and_leaves_its_result(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", phones=2)
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        submitted = await submit(farm, "good")
        record = await wait_over(farm, submitted.run)

        (attempt,) = await attempts_of(farm, submitted.run)
        assert record.state is RunState.SUCCEEDED
        assert attempt.attempt == submitted.run
        assert attempt.exit_code == 0
        assert attempt.phones == ("10.0.0.0:5555", "10.0.0.1:5555")
        assert attempt.result == {"episodes": 1, "tenant": "games"}
        assert attempt.size_bytes
        assert (tmp_path / "farm" / "runs" / submitted.run / "summary.json").is_file()
        assert b"on 2 phones" in farm.files(attempt.attempt).log.read_bytes()
        assert await farm.store.do(lambda store: store.reservations()) == {}


async def test_a_flaky_run_is_repeated_and_a_failing_one_only_so_often(tmp_path: Path) -> None:
    write_scenario(tmp_path, "flaky", "code=1 once=1")
    write_scenario(tmp_path, "failing", "code=1")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        flaky = await submit(farm, "flaky", repeats=2)
        failing = await submit(farm, "failing", repeats=1)

        assert (await wait_over(farm, flaky.run)).flaky
        assert (await wait_over(farm, failing.run)).state is RunState.FAILED
        assert [one.attempt for one in await attempts_of(farm, flaky.run)] == [flaky.run, f"{flaky.run}-2"]
        assert len(await attempts_of(farm, failing.run)) == 2


async def test_runs_queue_for_phones_and_never_share_one(tmp_path: Path) -> None:
    write_scenario(tmp_path, "three", "seconds=0.05", phones=3)
    write_scenario(tmp_path, "one", "seconds=0.05")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        runs = [
            await submit(farm, name, tenant=tenant) for name in ("three", "one", "one") for tenant in ("games", "other")
        ]

        states = {(await wait_over(farm, one.run)).state for one in runs}
        assert states == {RunState.SUCCEEDED}
        assert not (tmp_path / "farm" / "violations").exists()


async def test_cancelling_pausing_and_resuming(tmp_path: Path) -> None:
    write_scenario(tmp_path, "long", "seconds=60", phones=4)
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        first, second = await submit(farm, "long"), await submit(farm, "long")
        await wait_playing(farm, first.run)
        await wait_run(farm, second.run, lambda one: "0 of those" in farm.reason_for(one.run))

        await farm.pause(first.run, "ann")
        held = await wait_run(farm, first.run, lambda one: one.held is not None)
        await wait_playing(farm, second.run)
        await farm.cancel(second.run, "ann")
        cancelled = await wait_over(farm, second.run)
        await farm.resume(first.run)
        await wait_playing(farm, first.run)
        await farm.cancel(first.run, "ann")
        await wait_over(farm, first.run)

        assert held.state is RunState.QUEUED
        assert cancelled.state is RunState.CANCELLED
        assert [one.outcome for one in await attempts_of(farm, first.run)] == [
            AttemptOutcome.PAUSED,
            AttemptOutcome.CANCELLED,
        ]
        with pytest.raises(Refused, match="is cancelled"):
            await farm.cancel(first.run, "ann")
        with pytest.raises(Refused, match="no run"):
            await farm.cancel("nobody", "ann")


async def test_paused_phones_and_a_drained_farm_take_nothing(tmp_path: Path) -> None:
    write_scenario(tmp_path, "four", phones=4)
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        await farm.pause_phone("10.0.0.2:5555", "ann")
        with pytest.raises(Refused, match="no phone"):
            await farm.pause_phone("10.0.0.99:5555", "ann")
        run = (await submit(farm, "four")).run
        await wait_run(farm, run, lambda one: "are paused" in farm.reason_for(one.run))
        await farm.pause_phone(WHOLE_FARM, "ann")
        await farm.resume_phone("10.0.0.2:5555")
        await wait_run(farm, run, lambda one: "drained" in farm.reason_for(one.run))
        assert farm.statistics().draining

        await farm.resume_phone(WHOLE_FARM)
        assert (await wait_over(farm, run)).state is RunState.SUCCEEDED


async def test_a_drain_lets_runs_end_and_starts_none(tmp_path: Path) -> None:
    write_scenario(tmp_path, "some", "seconds=0.3", phones=4)
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        first, second = await submit(farm, "some"), await submit(farm, "some")
        await wait_playing(farm, first.run)

        await farm.drain()

        assert (await wait_over(farm, first.run)).state is RunState.SUCCEEDED
        assert (await farm.store.do(lambda store: store.run(second.run))).state is RunState.QUEUED


async def test_a_drain_that_takes_too_long_cuts_what_plays_and_it_is_queued_again(tmp_path: Path) -> None:
    write_scenario(tmp_path, "long", "seconds=600")
    config = farm_config(tmp_path, drain_seconds=0.0)
    async with open_farm(config, program=PROGRAM) as farm:
        run = (await submit(farm, "long")).run
        await wait_playing(farm, run)
        await farm.drain()
        record = await farm.store.do(lambda store: store.run(run))

        assert record.state is RunState.QUEUED
        assert (await attempts_of(farm, run))[0].outcome is AttemptOutcome.INTERRUPTED


async def test_time_without_a_farm_is_no_phone_time(tmp_path: Path) -> None:
    write_scenario(tmp_path, "long", "seconds=600")
    config = farm_config(tmp_path)
    async with open_farm(config, program=PROGRAM) as farm:
        run = (await submit(farm, "long")).run
        await wait_playing(farm, run)
    days_later = time.time() + 3 * 86400
    async with open_farm(config, program=PROGRAM, clock=lambda: days_later) as farm:
        await farm.pause_phone(WHOLE_FARM, "ann")
        await wait_run(farm, run, lambda one: one.state is RunState.QUEUED)
        (attempt,) = await attempts_of(farm, run)

    assert attempt.outcome is AttemptOutcome.INTERRUPTED
    assert attempt.ended_at is not None
    assert 0 <= attempt.ended_at - attempt.started_at < 3600


async def test_a_folder_of_a_state_that_was_lost_is_set_aside(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        await farm.pause_phone(WHOLE_FARM, "ann")
        run = (await submit(farm, "good")).run
        for number in (1, 2):
            folder = farm.files(run).folder if number == 1 else farm.files(f"{run}.earlier-1").folder
            folder.mkdir(parents=True)
            (folder / "kept").write_text(f"{number}")
        await farm.resume_phone(WHOLE_FARM)

        assert (await wait_over(farm, run)).state is RunState.SUCCEEDED
        assert (farm.files(f"{run}.earlier-2").folder / "kept").read_text() == "1"
        assert not (farm.files(run).folder / "kept").exists()
        assert farm.files(run).totals() is not None


async def test_a_cancel_is_not_lost_between_two_attempts(tmp_path: Path) -> None:
    write_scenario(tmp_path, "failing", "code=1 seconds=0")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        for pause in (0.0, 0.03, 0.06, 0.09):
            run = (await submit(farm, "failing", repeats=10)).run
            await wait_run(farm, run, lambda one: one.state is RunState.RUNNING)
            await trio.sleep(pause)  # anywhere in an attempt, or after it
            await farm.cancel(run, "ann")

            assert (await wait_over(farm, run)).state is RunState.CANCELLED


async def test_an_attempt_that_plays_for_too_long_is_stopped_and_has_failed(tmp_path: Path) -> None:
    write_scenario(tmp_path, "endless", "seconds=6000")
    async with open_farm(farm_config(tmp_path, attempt_hours=0.5 / 3600), program=PROGRAM) as farm:
        run = (await submit(farm, "endless")).run

        assert (await wait_over(farm, run)).state is RunState.FAILED
        assert "longer than" in (await attempts_of(farm, run))[0].reason


async def test_a_daily_run_that_was_paused_makes_up_for_nothing(tmp_path: Path) -> None:
    write_scenario(tmp_path, "daily")
    moment = [1_800_000_000.0]
    async with open_farm(farm_config(tmp_path), program=PROGRAM, clock=lambda: moment[0]) as farm:
        daily = await submit(farm, "daily", daily={"at": "09:00"})
        await farm.pause(daily.run, "ann")
        moment[0] += 3 * 86_400
        resumed = await farm.resume(daily.run)

        assert moment[0] < resumed.ready_at <= moment[0] + 86_400


async def test_a_scenario_that_went_wrong_since_is_a_wrong_run(tmp_path: Path) -> None:
    for name in ("changed", "gone", "broken"):
        write_scenario(tmp_path, name)
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        await farm.pause_phone(WHOLE_FARM, "ann")
        runs = {name: (await submit(farm, name)).run for name in ("changed", "gone", "broken")}
        write_scenario(tmp_path, "changed", phones=2)
        (tmp_path / "scenarios" / "gone.toml").unlink()
        (tmp_path / "scenarios" / "broken.toml").write_text("nonsense")
        await farm.resume_phone(WHOLE_FARM)

        reasons = {}
        for name, run in runs.items():
            assert (await wait_over(farm, run)).state is RunState.WRONG
            reasons[name] = (await attempts_of(farm, run))[0].reason
        assert "needs 2 phones" in reasons["changed"]
        assert "no scenario 'gone'" in reasons["gone"]
        assert "not TOML" in reasons["broken"]


async def test_a_process_that_cannot_play_is_tried_again_later(tmp_path: Path) -> None:
    write_scenario(tmp_path, "engineless", "code=3")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        run = (await submit(farm, "engineless")).run
        record = await wait_run(farm, run, lambda one: one.state is RunState.QUEUED and bool(one.reason))

        assert "tried again" in record.reason
        assert record.ready_at > farm.clock() + 30.0


async def test_a_text_is_played_from_a_file_of_its_own(tmp_path: Path) -> None:
    text = SCENARIO.format(name="text", does="", phones=1)
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        record = await farm.submit(parse_submission({"text": text}), tenant=TenantId("games"), user="ann")

        assert (await wait_over(farm, record.run)).state is RunState.SUCCEEDED
        assert farm.files(record.run).text.read_text() == text


async def test_a_daily_run_makes_runs_by_the_clock(tmp_path: Path) -> None:
    write_scenario(tmp_path, "daily")
    moment = [1_800_000_000.0]  # 2027-01-15 08:00 UTC
    async with open_farm(farm_config(tmp_path), program=PROGRAM, clock=lambda: moment[0]) as farm:
        daily = await submit(farm, "daily", daily={"at": "09:00", "zone": "UTC"})
        moment[0] += 2 * 3600 + 3 * 86_400  # three days missed: one run, not three
        farm.look_again()
        with trio.fail_after(60):
            while not (made := [one for one in await farm.store.do(lambda s: s.runs()) if one.origin]):
                await trio.sleep(0.02)
        await wait_over(farm, made[0].run)

        assert [one.origin for one in made] == [daily.run]
        scheduled = await farm.store.do(lambda store: store.run(daily.run))
        assert scheduled.state is RunState.SCHEDULED
        assert moment[0] < scheduled.ready_at <= moment[0] + 86_400


async def test_too_many_waiting_runs_of_a_tenant_are_refused(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_farm(farm_config(tmp_path, queued_runs=2), program=PROGRAM) as farm:
        await farm.pause_phone(WHOLE_FARM, "ann")
        await submit(farm, "good")
        await submit(farm, "good")

        with pytest.raises(Refused, match="2 runs waiting"):
            await submit(farm, "good")
        await submit(farm, "good", tenant="other")


async def test_a_reload_brings_phones_and_leaves_what_plays_alone(tmp_path: Path) -> None:
    write_scenario(tmp_path, "some", "seconds=0.3")
    write_scenario(tmp_path, "big", phones=2)
    config = farm_config(tmp_path, phones=1)
    async with open_farm(config, program=PROGRAM) as farm:
        playing = (await submit(farm, "some")).run
        big = (await submit(farm, "big")).run
        await wait_run(farm, big, lambda one: "the farm has 1" in farm.reason_for(one.run))
        farm.reload(attrs.evolve(config, phones=(AdbPool("new", ("10.1.0.1:5555", "10.1.0.2:5555")),)))

        assert (await wait_over(farm, big)).state is RunState.SUCCEEDED
        assert (await wait_over(farm, playing)).state is RunState.SUCCEEDED


async def test_old_folders_go_and_pinned_ones_stay(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    moment = [1_800_000_000.0]
    config = attrs.evolve(farm_config(tmp_path), retention=RetentionConfig(succeeded_days=1))
    async with open_farm(config, program=PROGRAM, clock=lambda: moment[0]) as farm:
        old, pinned = (await submit(farm, "good")).run, (await submit(farm, "good")).run
        for run in (old, pinned):
            await wait_over(farm, run)
        await farm.store.do(lambda store: store.pin(pinned, pinned=True))
        for run in (old, pinned):
            await wait_read(farm, run)
        moment[0] += 2 * 86_400
        gone = await retain(config.retention, farm.folder, farm.store, farm.findings, moment[0])

        assert gone == [old]
        assert not farm.files(old).folder.exists()
        assert not farm.files(old).log.exists()
        assert farm.files(pinned).folder.exists()
        assert (await attempts_of(farm, old))[0].removed == "older than 1 days"
        assert (await attempts_of(farm, old))[0].result is not None
        assert await retain(config.retention, farm.folder, farm.store, farm.findings, moment[0]) == []


async def test_a_farm_folder_serves_one_daemon(tmp_path: Path) -> None:
    async with open_farm(farm_config(tmp_path), program=PROGRAM):
        with pytest.raises(FarmRuns):
            async with open_farm(farm_config(tmp_path), program=PROGRAM):
                raise AssertionError("two at a time")


async def test_scenarios_by_name_are_those_of_the_folder(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    (tmp_path / "scenarios" / "x.rules.toml").write_text("")
    (tmp_path / "scenarios" / "faults.toml").write_text("[[faults]]\nkind = 'hang'\n")  # lies there too, and is none
    (tmp_path / "secret.toml").write_text("secret = 1")
    (tmp_path / "scenarios" / "link.toml").symlink_to(tmp_path / "secret.toml")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        assert farm.scenarios() == ["good"]
        for name in ("link", "missing"):
            with pytest.raises(Refused, match="no scenario"):
                await submit(farm, name)
