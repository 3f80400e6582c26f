"""A farm's engines: shared by runs, changed one by one; over real sockets, and once with real runs."""

import contextlib
import json
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.farm.client import FarmRefused
from actors.farm.config import FarmConfig, SimulatedPool
from actors.farm.daemon import PROGRAM, open_farm
from actors.farm.database import StoreError, open_database
from actors.farm.engine_store import EngineStore
from actors.farm.engine_views import engine_views, rollout_view
from actors.farm.engines import FarmEngines, NoEngine, Rollout, RolloutState, open_engines
from actors.farm.rollout import Holdback, RolloutConfig, shown
from actors.farm.store import Store, StoreDesk
from actors.farm.work import RunState
from inference.config import EngineConfig, LaunchConfig, LaunchKind, TenantConfig
from inference.door_client import RemotePool, open_remote_pool
from inference.errors import EngineError
from inference.messages import Message, Prompt, TextPart
from runtime.ids import EngineId, TenantId
from tests.kit.engines import FakeEngine, serve_tcp
from tests.kit.farm import farm_config, open_served, submit, wait_over, write_scenario
from tests.kit.wall_farm import ENGINES

E1, E2 = EngineId("e1"), EngineId("e2")
QUICK = RolloutConfig(canary_requests=6, canary_minutes=0.05, start_minutes=0.2)


@attrs.define
class Bench:
    """Engines of a farm that is not there, and somebody who asks them."""

    config: FarmConfig
    engines: FarmEngines
    ended: list[Rollout]
    remote: RemotePool

    def change(self, *engines: EngineConfig, **more: Any) -> None:
        self.config = attrs.evolve(self.config, engines=engines, **more)
        self.engines.reload()

    async def ask(self, number: int, *, tenant: str = "t") -> bool:
        """Whether it was answered."""
        message = Message("user", (TextPart("play"),))
        prompt = Prompt(f"r{number}", TenantId(tenant), f"episode-{number}", (message,), max_tokens=64)
        try:
            await self.remote(prompt, deadline=trio.current_time() + 5)
        except EngineError:
            return False
        return True

    def states(self) -> dict[str, str]:
        return {view["engine"]: view["state"] for view in engine_views(self.engines, None)}

    async def until_up(self, *names: str) -> None:
        await until(lambda: [name for name, state in self.states().items() if state == "up"] == list(names))

    async def until_ended(self) -> Rollout:
        """The rollout has ended, with somebody asking all the time."""
        with trio.fail_after(30):
            number = 1000
            while not self.ended:
                number += 1
                await self.ask(number)
                await trio.sleep(0.02)
        return self.ended[-1]


async def until(true: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not true():
            await trio.sleep(0.02)


@asynccontextmanager
async def open_bench(
    tmp_path: Path, *fakes: FakeEngine, **config: Any
) -> AsyncIterator[tuple[Bench, list[EngineConfig]]]:
    async with served(*fakes) as made, running_farm(tmp_path, **config) as bench:
        yield bench, made


@asynccontextmanager
async def running_farm(tmp_path: Path, **config: Any) -> AsyncIterator[Bench]:
    """What is kept in the folder is found there by the next one."""
    farm = attrs.evolve(farm_config(tmp_path), **{"rollout": QUICK, **config})
    bench = Bench(farm, None, [], None)  # type: ignore[arg-type]
    database = open_database(tmp_path / "farm.sqlite")
    store = StoreDesk(Store(database))
    try:
        async with (
            open_engines(lambda: bench.config, tmp_path, store, tell=bench.ended.append) as bench.engines,
            open_remote_pool(bench.engines.door.path) as bench.remote,
        ):
            yield bench
    finally:
        database.close()


@asynccontextmanager
async def served(*fakes: FakeEngine) -> AsyncIterator[list[EngineConfig]]:
    """Engines that outlive farms."""
    async with trio.open_nursery() as nursery:
        yield [
            EngineConfig(EngineId(f"e{number}"), url=await serve_tcp(fake, nursery), probe_every_seconds=0.1)
            for number, fake in enumerate(fakes, 1)
        ]
        nursery.cancel_scope.cancel()


async def test_engines_start_are_shared_and_counted(tmp_path: Path) -> None:
    fakes = FakeEngine(), FakeEngine()
    async with open_bench(tmp_path, *fakes) as (bench, made):
        assert bench.engines.why_none() == ""  # runs bring their own
        bench.change(*made)
        await bench.until_up("e1", "e2")
        assert all([await bench.ask(number, tenant="ab"[number % 2]) for number in range(6)])
        views = engine_views(bench.engines, None)
        assert sum(view["homes"] for view in views) == 6
        assert {view["engine"] for view in views if view["tokens"]["input"] > 0} == {"e1", "e2"}
        assert all(view["tpot_ms"] is None or view["tpot_ms"] >= 0 for view in views)
        of_a = engine_views(bench.engines, "a")
        assert all("tenants" not in view["tokens"] for view in of_a)
        assert sum(view["tokens"]["input"] for view in of_a) * 2 == sum(view["tokens"]["input"] for view in views)
        assert {name for view in views for name in view["tokens"]["tenants"]} == {"a", "b"}
        json.dumps(views)


async def test_a_changed_engine_is_tried_before_the_next_one_is_changed(tmp_path: Path) -> None:
    async with open_bench(tmp_path, FakeEngine(), FakeEngine()) as (bench, made):
        bench.change(*made)
        await bench.until_up("e1", "e2")
        await until(lambda: bool(bench.ended))
        bench.ended.clear()
        versions = [view["version"] for view in engine_views(bench.engines, None)]
        bench.change(*(attrs.evolve(one, max_in_flight=3) for one in made))
        rollout = await bench.until_ended()
        assert rollout.state is RolloutState.DONE, rollout.why
        assert rollout.done == 2
        await bench.until_up("e1", "e2")
        found = [view["version"] for view in engine_views(bench.engines, None)]
        assert not set(found) & set(versions)
        assert {engine.limit for engine in bench.engines.pool.statistics().engines} == {3}


async def test_a_bad_one_is_rolled_back_and_the_others_are_left_alone(tmp_path: Path) -> None:
    good, other, bad = FakeEngine(), FakeEngine(), FakeEngine("status:500")
    async with open_bench(tmp_path, good, other, bad) as (bench, (one, two, wrong)):
        bench.change(one, two)
        await bench.until_up("e1", "e2")
        await until(lambda: bool(bench.ended))
        bench.ended.clear()
        bench.change(attrs.evolve(one, url=wrong.url), attrs.evolve(two, model="new"))
        rollout = await bench.until_ended()
        assert rollout.state is RolloutState.ROLLED_BACK
        assert "engine e1: " in rollout.why
        assert "failed" in rollout.why
        assert rollout.done == 0
        await bench.until_up("e1", "e2")
        assert {engine.id: engine.url for engine in bench.engines.pool.statistics().engines}[E1] == one.url
        assert [config.model for config in bench.engines.configured] == [one.model, two.model]
        assert await bench.ask(1)
        view = rollout_view(bench.engines.rollout)
        assert view is not None
        assert view["state"] == "rolled_back"
        assert ENGINES["rollout"].keys() == view.keys()


async def test_one_that_does_not_start_is_rolled_back(tmp_path: Path) -> None:
    gone = FakeEngine()
    gone.answers_probes = False
    async with open_bench(tmp_path, FakeEngine()) as (bench, (one,)):
        bench.change(one)
        await bench.until_up("e1")
        await until(lambda: bool(bench.ended))
        bench.ended.clear()
        bench.change(attrs.evolve(one, url="http://127.0.0.1:9"))
        await until(lambda: bool(bench.ended))
        assert bench.ended[0].state is RolloutState.ROLLED_BACK
        assert "does not start" in bench.ended[0].why
        await bench.until_up("e1")


async def test_an_operator_stops_a_rollout_and_what_was_changed_stays(tmp_path: Path) -> None:
    async with open_bench(tmp_path, FakeEngine(), FakeEngine()) as (bench, made):
        bench.change(*made, rollout=RolloutConfig(canary_requests=200, canary_minutes=9.0))
        await bench.until_up("e1", "e2")
        await until(lambda: bool(bench.ended))
        bench.ended.clear()
        with pytest.raises(NoEngine):
            bench.engines.stop_rollout()
        bench.change(*(attrs.evolve(one, max_in_flight=3) for one in made))
        await until(lambda: bench.engines.rollout is not None and bench.engines.rollout.state is RolloutState.RUNNING)
        await until(lambda: bench.engines.configured[0].max_in_flight == 3)
        await bench.until_up("e1", "e2")
        bench.engines.stop_rollout()
        await until(lambda: bool(bench.ended))
        assert bench.ended[0].state is RolloutState.STOPPED
        assert [one.max_in_flight for one in bench.engines.configured] == [3, made[1].max_in_flight]
        await bench.until_up("e1", "e2")


async def test_an_adapter_that_is_refused_is_taken_back(tmp_path: Path) -> None:
    fake = FakeEngine()
    old, new = TenantConfig(adapter="old"), TenantConfig(adapter="new", weight=2.0)
    async with open_bench(tmp_path, fake, tenants={"t": old}) as (bench, (one,)):
        bench.change(one)
        await bench.until_up("e1")
        await until(lambda: bool(bench.ended))
        bench.ended.clear()
        assert await bench.ask(1)
        fake.behaviours = deque(["status:500"])
        bench.change(one, tenants={"t": new})
        rollout = await bench.until_ended()
        assert rollout.state is RolloutState.ROLLED_BACK
        assert "adapter of tenant t" in rollout.why


async def test_what_was_rolled_back_stays_so_over_a_restart(tmp_path: Path) -> None:
    old, new = TenantConfig(adapter="old"), TenantConfig(adapter="new")
    good, other = FakeEngine(), FakeEngine()
    async with served(good, other, FakeEngine("status:500")) as (one, two, wrong):
        changed = [attrs.evolve(one, url=wrong.url), attrs.evolve(two, model="new")]
        async with running_farm(tmp_path, engines=(one, two), tenants={"t": old}) as bench:
            await bench.until_up("e1", "e2")
            bench.change(*changed, tenants={"t": new})
            assert (await bench.until_ended()).state is RolloutState.ROLLED_BACK
            everything = ["engine e1", "engine e2", "the adapter of tenant t"]
            assert bench.engines.held == everything
        async with running_farm(tmp_path, engines=tuple(changed), tenants={"t": new}) as bench:
            await bench.until_up("e1", "e2")
            assert bench.engines.configured == (one, two)
            assert bench.engines.held == everything
            for fake in (good, other):
                fake.requests.clear()
            assert await bench.ask(1)
            assert (good.requests or other.requests)[-1]["lora_path"] == "old"
            assert bench.engines.rollout is None
            bench.change(*changed, tenants={"t": new})  # as SIGHUP does: it is tried again
            assert (await bench.until_ended()).state is RolloutState.ROLLED_BACK
            bench.ended.clear()
            bench.change(one, changed[1], tenants={"t": new})  # what was wrong is corrected
            assert (await bench.until_ended()).state is RolloutState.DONE
            assert bench.engines.held == []
        async with running_farm(tmp_path, engines=(one, changed[1]), tenants={"t": new}) as bench:
            assert bench.engines.configured == (one, changed[1])
            await bench.until_up("e1", "e2")
            for fake in (good, other):
                fake.requests.clear()
            assert await bench.ask(1)
            assert (good.requests or other.requests)[-1]["lora_path"] == "new"


async def test_what_is_changed_while_no_farm_runs_is_started_as_it_says(tmp_path: Path) -> None:
    async with served(FakeEngine(), FakeEngine("status:500")) as (one, wrong):
        bad = attrs.evolve(one, url=wrong.url)
        async with running_farm(tmp_path, engines=(one,)) as bench:
            await bench.until_up("e1")
            bench.change(bad)
            assert (await bench.until_ended()).state is RolloutState.ROLLED_BACK
        other = attrs.evolve(one, model="other")
        async with running_farm(tmp_path, engines=(other,)) as bench:
            assert bench.engines.configured == (other,)
            assert bench.engines.held == []
        async with running_farm(tmp_path, engines=(bad,)) as bench:
            assert bench.engines.configured == (bad,)


async def test_a_change_goes_on_after_the_farm_ended_in_its_midst(tmp_path: Path) -> None:
    slow = RolloutConfig(canary_requests=200, canary_minutes=9.0)
    async with served(FakeEngine(), FakeEngine()) as made:
        changed = tuple(attrs.evolve(one, max_in_flight=3) for one in made)
        async with running_farm(tmp_path, engines=tuple(made), rollout=slow) as bench:
            await bench.until_up("e1", "e2")
            bench.change(*changed)
            await until(lambda: bench.engines.configured[0].max_in_flight == 3)
            await bench.until_up("e1", "e2")
        async with running_farm(tmp_path, engines=changed) as bench:
            rollout = await bench.until_ended()
            assert rollout.state is RolloutState.DONE
            assert [shown(step) for step in rollout.steps] == ["engine e1", "engine e2"]
            assert bench.engines.configured == changed
            assert bench.engines.held == []


async def test_an_engine_that_was_to_go_and_did_not_is_there_after_a_restart(tmp_path: Path) -> None:
    async with served(FakeEngine(), FakeEngine(), FakeEngine("status:500")) as (one, two, wrong):
        bad = attrs.evolve(one, url=wrong.url)
        async with running_farm(tmp_path, engines=(one, two)) as bench:
            await bench.until_up("e1", "e2")
            bench.change(bad)
            assert (await bench.until_ended()).state is RolloutState.ROLLED_BACK
        async with running_farm(tmp_path, engines=(bad,)) as bench:
            assert bench.engines.configured == (one, two)
            assert bench.engines.held == ["engine e1", "engine e2"]


async def test_what_an_operator_stopped_is_as_it_was_then_after_a_restart(tmp_path: Path) -> None:
    slow = RolloutConfig(canary_requests=200, canary_minutes=9.0)
    async with served(FakeEngine(), FakeEngine()) as made:
        changed = tuple(attrs.evolve(one, max_in_flight=3) for one in made)
        async with running_farm(tmp_path, engines=tuple(made), rollout=slow) as bench:
            await bench.until_up("e1", "e2")
            bench.change(*changed)
            await until(lambda: bench.engines.configured[0].max_in_flight == 3)
            bench.engines.stop_rollout()
            await until(lambda: bool(bench.ended))
        async with running_farm(tmp_path, engines=changed) as bench:
            assert bench.engines.configured == (changed[0], made[1])
            assert bench.engines.held == ["engine e2"]


async def test_a_drained_engine_stays_so_over_a_restart(tmp_path: Path) -> None:
    async with served(FakeEngine(), FakeEngine()) as made:
        async with running_farm(tmp_path, engines=tuple(made)) as bench:
            await bench.until_up("e1", "e2")
            await bench.engines.drain(E1)
        async with running_farm(tmp_path, engines=tuple(made)) as bench:
            await until(lambda: bench.states() == {"e1": "drained", "e2": "up"})
            await bench.engines.undrain(E1)
            await bench.until_up("e1", "e2")
        async with running_farm(tmp_path, engines=tuple(made)) as bench:
            await bench.until_up("e1", "e2")


async def test_a_kept_change_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    async with served(FakeEngine()) as (one,):
        async with running_farm(tmp_path, engines=(one,)):
            pass
        with contextlib.closing(sqlite3.connect(tmp_path / "farm.sqlite")) as database, database:
            database.executemany(
                "INSERT INTO held_changes (kind, step, refused) VALUES (?, ?, 1)",
                [("replace", "{}"), ("replace", "null"), ("other", "{}"), ("remove", "no json"), ("adapter", "[]")],
            )
        async with running_farm(tmp_path, engines=(one,)) as bench:
            await bench.until_up("e1")
            assert bench.engines.held == []


class SlowToStop:
    """A process beside an engine, which takes two seconds to end once it has said that it is there."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "it-runs"
        code = (
            "import os, pathlib, signal, sys, time\n"
            "signal.signal(15, lambda *_: (time.sleep(2), os._exit(0)))\n"
            "pathlib.Path(sys.argv[1]).touch()\n"
            "while True: time.sleep(9)"
        )
        self.launch = LaunchConfig(
            kind=LaunchKind.COMMAND,
            args=("python3", "-S", "-c", code, str(self.file)),
            environment={"HF_TOKEN": "a-secret-of-theirs"},
            prove=False,
        )

    async def until_there(self) -> None:
        await until(self.file.exists)
        self.file.unlink()


LONG = RolloutConfig(canary_requests=200, canary_minutes=9.0, start_minutes=0.5)


async def test_an_operator_who_drains_in_the_midst_of_a_change_is_heard(tmp_path: Path) -> None:
    async with served(FakeEngine()) as (one,):
        slow = SlowToStop(tmp_path)
        one = attrs.evolve(one, launch=slow.launch)
        async with running_farm(tmp_path, engines=(one,), rollout=LONG) as bench:
            await bench.until_up("e1")
            await slow.until_there()
            bench.change(attrs.evolve(one, max_in_flight=3))
            await until(lambda: bench.states() == {"e1": "down"})  # the change stops it
            await bench.engines.drain(E1)
            await until(lambda: bool(bench.ended))
            assert bench.ended[0].state is RolloutState.DONE
            assert bench.states() == {"e1": "drained"}
            assert bench.engines.child("e1") is None
            await bench.engines.undrain(E1)
            await bench.until_up("e1")
            assert bench.engines.configured[0].max_in_flight == 3


async def test_a_change_that_is_stopped_while_it_stops_an_engine_leaves_it_running(tmp_path: Path) -> None:
    async with served(FakeEngine(), FakeEngine()) as (one, two):
        slow = SlowToStop(tmp_path)
        one = attrs.evolve(one, launch=slow.launch)
        async with running_farm(tmp_path, engines=(one, two), rollout=LONG) as bench:
            await bench.until_up("e1", "e2")
            for wanted in ((attrs.evolve(one, max_in_flight=3), two), (two,)):  # changed; removed
                bench.ended.clear()
                await slow.until_there()
                bench.change(*wanted)
                await until(lambda: bench.states()["e1"] == "down")
                bench.engines.stop_rollout()
                await until(lambda: bool(bench.ended))
                assert bench.ended[0].state is RolloutState.STOPPED
                await bench.until_up("e1", "e2")


async def test_undraining_what_is_still_being_drained(tmp_path: Path) -> None:
    async with served(FakeEngine()) as (one,):
        slow = SlowToStop(tmp_path)
        async with running_farm(tmp_path, engines=(attrs.evolve(one, launch=slow.launch),)) as bench:
            await bench.until_up("e1")
            await slow.until_there()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.engines.drain, E1)
                await until(lambda: bench.engines.is_drained("e1"))
                await bench.engines.undrain(E1)
            await bench.until_up("e1")


async def test_a_second_change_that_waited_is_tried_as_well_after_a_restart(tmp_path: Path) -> None:
    async with served(FakeEngine(), FakeEngine(), FakeEngine("status:500")) as (one, two, wrong):
        second = [attrs.evolve(one, max_in_flight=3), attrs.evolve(two, max_in_flight=3)]
        third = [attrs.evolve(one, url=wrong.url), attrs.evolve(two, url=wrong.url)]
        async with running_farm(tmp_path, engines=(one, two), rollout=LONG) as bench:
            await bench.until_up("e1", "e2")
            bench.change(*second)
            await until(lambda: bench.engines.configured[0].max_in_flight == 3)
            bench.change(*third)
        async with running_farm(tmp_path, engines=tuple(third)) as bench:
            rollout = await bench.until_ended()
            assert rollout.state is RolloutState.ROLLED_BACK
            assert bench.engines.configured == (one, two)


async def test_a_drained_engine_that_was_removed_is_forgotten(tmp_path: Path) -> None:
    async with served(FakeEngine(), FakeEngine()) as (one, two):
        async with running_farm(tmp_path, engines=(one, two)) as bench:
            await bench.until_up("e1", "e2")
            await bench.engines.drain(E1)
        async with running_farm(tmp_path, engines=(two,)) as bench:
            await bench.until_up("e2")
            bench.change(one, two)
            await bench.until_up("e2", "e1")
            assert not bench.engines.is_drained("e1")


async def test_no_value_of_the_environment_is_in_the_state(tmp_path: Path) -> None:
    async with served(FakeEngine(), FakeEngine("status:500")) as (one, wrong):
        one = attrs.evolve(one, launch=SlowToStop(tmp_path).launch)
        bad = attrs.evolve(one, url=wrong.url)
        async with running_farm(tmp_path, engines=(one,)) as bench:
            await bench.until_up("e1")
            bench.change(bad)
            assert (await bench.until_ended()).state is RolloutState.ROLLED_BACK
            kept = b"".join(file.read_bytes() for file in tmp_path.glob("farm.sqlite*"))
            assert b"max_in_flight" in kept
            assert b"a-secret-of-theirs" not in kept
        async with running_farm(tmp_path, engines=(bad,)) as bench:
            assert bench.engines.configured == (one,)


async def test_a_state_that_cannot_be_written_holds_a_change_up_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    hold = EngineStore.hold

    def refuse(self: EngineStore, held: Sequence[Holdback]) -> None:
        if full:
            raise StoreError("the disk is full")
        hold(self, held)

    async with served(FakeEngine()) as (one,), running_farm(tmp_path, engines=(one,)) as bench:
        await bench.until_up("e1")
        monkeypatch.setattr("actors.farm.engines.RETRY_SECONDS", 0.1)
        monkeypatch.setattr(EngineStore, "hold", refuse)
        bench.change(attrs.evolve(one, max_in_flight=3))
        await trio.sleep(0.5)
        assert bench.engines.configured == (one,)
        assert await bench.ask(1)
        full = False
        assert (await bench.until_ended()).state is RolloutState.DONE


async def test_drain_and_back(tmp_path: Path) -> None:
    async with open_bench(tmp_path, FakeEngine()) as (bench, (one,)):
        with pytest.raises(NoEngine, match="e1"):
            await bench.engines.drain(E1)
        bench.change(one)
        await bench.until_up("e1")
        await bench.engines.drain(E1)
        assert bench.states() == {"e1": "drained"}
        assert "no engine is up" in bench.engines.why_none()
        assert not await bench.ask(1)
        await bench.engines.drain(E1)
        await bench.engines.undrain(E1)
        await bench.until_up("e1")
        assert await bench.ask(2)


async def test_one_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    fake = FakeEngine()
    fake.dying = True
    async with open_bench(tmp_path, fake) as (bench, (one,)):
        bench.change(one)
        await until(lambda: bench.states() == {"e1": "down"})
        assert bench.engines.why_none()
        fake.dying = False
        await bench.until_up("e1")
        assert bench.engines.why_none() == ""


async def test_the_api_of_engines(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        engine = EngineConfig(E1, url=await serve_tcp(FakeEngine(), nursery), probe_every_seconds=0.1)
        config = attrs.evolve(farm_config(tmp_path), engines=(engine,))
        async with open_served(config) as served:
            found = (await served.call("games.viewer", "GET", "/api/v1/engines")).json
            assert [one["engine"] for one in found["engines"]] == ["e1"]
            # the stand-in of the wall's tests tells nothing that a farm does not
            assert ENGINES.keys() == found.keys()
            assert ENGINES["engines"][0].keys() <= found["engines"][0].keys()
            with pytest.raises(FarmRefused, match="admin"):
                await served.call("games.operator", "POST", "/api/v1/engines/e1/drain")
            drained = (await served.call("games.admin", "POST", "/api/v1/engines/e1/drain")).json
            assert drained["engines"][0]["state"] == "drained"
            back = (await served.call("games.admin", "DELETE", "/api/v1/engines/e1/drain")).json
            assert back["engines"][0]["state"] in {"starting", "up"}
            with pytest.raises(FarmRefused, match="no engine"):
                await served.call("games.admin", "POST", "/api/v1/engines/nine/drain")
            with pytest.raises(FarmRefused, match="no rollout"):
                await served.call("games.admin", "DELETE", "/api/v1/rollout")
        nursery.cancel_scope.cancel()


async def test_runs_wait_while_no_engine_is_up(tmp_path: Path) -> None:
    write_scenario(tmp_path, "one")
    fake = FakeEngine()
    fake.dying = True
    async with trio.open_nursery() as nursery:
        engine = EngineConfig(E1, url=await serve_tcp(fake, nursery), probe_every_seconds=0.1)
        config = attrs.evolve(farm_config(tmp_path), engines=(engine,))
        async with open_farm(config, program=("false",)) as farm:
            run = (await submit(farm, "one")).run
            await until(lambda: "no engine is up" in farm.reason_for(run))
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_two_real_runs_share_one_engine(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    engine = EngineConfig(E1, launch=LaunchConfig(args=("--ttft-ms", "30", "--tpot-ms", "2")), model="rehearsal-7b")
    base = farm_config(tmp_path)
    config = attrs.evolve(base, engines=(engine,), phones=(SimulatedPool("sim", 2),), tenants={"a": TenantConfig()})
    inline = """
name = "short"
[limits]
seconds = 6
[planner]
act_seconds = 0.25
[apps.battler]
package = "dev.corral.battler"
goal = "Survive as many waves as you can."
[[phones]]
kind = "simulated"
app = "battler"
count = 1
"""
    (tmp_path / "scenarios" / "short.toml").write_text(inline)
    async with open_farm(config, program=PROGRAM) as farm:
        await until(lambda: farm.engines.why_none() == "")
        runs = [(await submit(farm, "short", tenant=tenant)).run for tenant in ("a", "b")]
        for run in runs:
            record = await wait_over(farm, run)
            assert record.state in {RunState.SUCCEEDED, RunState.FAILED}, record.reason
        (view,) = engine_views(farm.engines, None)
        assert set(view["tokens"]["tenants"]) == {"a", "b"}
        assert all(one["output"] > 0 for one in view["tokens"]["tenants"].values())
        assert farm.engines.pool.statistics().homes == 0
