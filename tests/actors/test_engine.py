import os
import signal
import sys
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from actors.engine import ENGINE_INTENSITY, engine_spec_for, process_plan_for, url_in_ready_line
from inference.config import EngineConfig, LaunchConfig, LaunchKind
from inference.errors import EngineError, EngineNotReady, EngineRefused
from inference.messages import Completion, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from inference.topology import parse_topology
from runtime.child import ChildEnded
from runtime.ids import EngineId, TenantId
from runtime.lifecycle import State
from runtime.process import ReadyLine, ReadyProbe
from runtime.secret import Secret
from runtime.supervisor import open_supervisor
from tests.kit.engines import FakeEngine, open_network, serve_tcp
from tests.kit.recorded import recorded

E1 = EngineId("e1")

# A small engine of another make: it answers probes, and says where it listens as the rehearsal engine does.
SERVER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"{}")
    def log_message(self, *_):
        pass
for port in range(25200, 25400):
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError:
        continue
    break
print(json.dumps({"ready": True, "url": f"http://127.0.0.1:{port}"}), flush=True)
server.serve_forever()
"""


async def ask(pool: EnginePool) -> Completion:
    prompt = Prompt("r1", TenantId("t"), "k", (Message("user", (TextPart("play"),)),), max_tokens=8)
    return await pool(prompt, deadline=trio.current_time() + 5)


def test_ready_line() -> None:
    assert url_in_ready_line('{"ready": true, "url": "http://127.0.0.1:5"}') == "http://127.0.0.1:5"
    for other in (
        "",
        "INFO ready",
        "{",
        '{"ready": false, "url": "x"}',
        '{"ready": true}',
        '{"ready": true, "url": 5}',
    ):
        assert url_in_ready_line(other) is None


def test_plans(tmp_path: Path) -> None:
    rehearsal = EngineConfig(E1, launch=LaunchConfig(args=("--seed", "7"), stop_grace_seconds=1.0), gpu=3)
    plan = process_plan_for(rehearsal, tmp_path)
    assert plan.argv == (
        *(sys.executable, "-m", "actors.cli.main", "engine", "rehearse", "--port", "0"),
        *("--seed", "7"),
    )
    assert isinstance(plan.ready, ReadyLine)
    assert plan.environment == {"CUDA_VISIBLE_DEVICES": "3"}
    assert (plan.log_path, plan.stop_grace_seconds) == (tmp_path / "e1.log", 1.0)

    keyed = process_plan_for(rehearsal, tmp_path, key=Secret("the-key-of-this-engine"))
    assert keyed.argv == (*plan.argv, "--api-key-env", "CORRAL_ENGINE_KEY")
    assert keyed.environment["CORRAL_ENGINE_KEY"] == "the-key-of-this-engine"

    sglang = EngineConfig(E1, url="http://127.0.0.1:30000", launch=LaunchConfig(LaunchKind.SGLANG, args=("sglang",)))
    plan = process_plan_for(sglang, tmp_path)
    assert plan.argv == ("sglang",)
    assert isinstance(plan.ready, ReadyProbe)
    with pytest.raises(EngineNotReady, match="needs its url"):
        process_plan_for(attrs.evolve(sglang, url=None), tmp_path)
    with pytest.raises(EngineNotReady, match="no launch section"):
        process_plan_for(attrs.evolve(sglang, launch=None), tmp_path)
    with pytest.raises(EngineNotReady, match="no launch section"):
        process_plan_for(attrs.evolve(sglang, managed=False), tmp_path)
    int4 = LaunchConfig(LaunchKind.SGLANG, args=("sglang", "--kv-cache-dtype", "int4"))
    with pytest.raises(EngineRefused, match="INT4"):
        process_plan_for(attrs.evolve(sglang, launch=int4), tmp_path)
    parallel = attrs.evolve(sglang, launch=LaunchConfig(LaunchKind.SGLANG, args=("sglang", "--tp", "2")))
    with pytest.raises(EngineRefused, match="without NVLink"):
        process_plan_for(parallel, tmp_path)
    nvlink = parse_topology(recorded("topo-4xA100-nvlink.txt"))
    assert process_plan_for(parallel, tmp_path, topology=nvlink).argv == ("sglang", "--tp", "2")


async def test_a_found_engine_is_registered_while_its_actor_runs(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        open_network({7: FakeEngine()}) as network,
        open_pool(network=lambda: network) as pool,
        open_supervisor("s") as supervisor,
    ):
        config = EngineConfig(E1, url="http://engine:7")
        url = await supervisor.start_child(engine_spec_for(config, pool, tmp_path))
        assert url == "http://engine:7"
        assert (await ask(pool)).engine == "e1"
        await supervisor.stop_child("engine-e1")
        assert pool.statistics().engines == ()


async def test_a_found_engine_that_nobody_runs_is_not_ready(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    once = attrs.evolve(ENGINE_INTENSITY, max_restarts=0)
    async with (
        open_network({}) as network,
        open_pool(network=lambda: network) as pool,
        open_supervisor("s") as supervisor,
    ):
        config = EngineConfig(E1, url="http://engine:7")
        with pytest.raises(ChildEnded) as caught:
            await supervisor.start_child(attrs.evolve(engine_spec_for(config, pool, tmp_path), intensity=once))
        assert "does not answer: e1: cannot connect" in str(caught.value.__cause__)
        assert pool.statistics().engines == ()


async def test_a_launched_engine_that_dies_comes_back_under_its_id_with_its_new_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    config = EngineConfig(E1, launch=LaunchConfig(stop_grace_seconds=5.0, start_seconds=20.0))
    plan = attrs.evolve(process_plan_for(config, tmp_path), argv=(sys.executable, "-I", "-S", str(script)))
    monkeypatch.setattr("actors.engine.process_plan_for", lambda *_, **__: plan)
    async with open_pool() as pool, open_supervisor("s", draw=lambda: 0.0) as supervisor:
        first = await supervisor.start_child(engine_spec_for(config, pool, tmp_path))
        assert pool.statistics().engines[0].url == first
        (victim,) = pids_of(script)
        os.kill(victim, signal.SIGKILL)
        with trio.fail_after(20):
            while supervisor.statistics().child("engine-e1").restarts < 1:
                await trio.sleep(0.02)
            while supervisor.statistics().child("engine-e1").state is not State.RUNNING:
                await trio.sleep(0.02)
        assert "exit code 137" in str(supervisor.statistics().child("engine-e1").last_error)
        assert [engine.id for engine in pool.statistics().engines] == ["e1"]
        assert pids_of(script) != [victim]
    assert pids_of(script) == []


def pids_of(script: Path) -> list[int]:
    """Processes whose command line names the script, other than the group leaders that stand before them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(script).encode() in words and not any(b"lifeline" in word for word in words):
                found.append(int(folder.name))
    return found


async def test_over_real_sockets(tmp_path: Path) -> None:
    engine = FakeEngine("ok", "reset", "ok")
    async with trio.open_nursery() as nursery:
        url = await serve_tcp(engine, nursery)
        async with open_pool() as pool, open_supervisor("s") as supervisor:
            await supervisor.start_child(engine_spec_for(EngineConfig(E1, url=url), pool, tmp_path))
            assert (await ask(pool)).text == "T447,081;W03"
            with pytest.raises(EngineError):
                await ask(pool)
            assert (await ask(pool)).why == "sticky"
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_rehearsal_engine_dies_in_the_middle_and_nobody_notices_but_the_ledger(tmp_path: Path) -> None:
    def config(number: int, *args: str) -> EngineConfig:
        launch = LaunchConfig(args=("--blind", "--latency-ms", "20", *args), stop_grace_seconds=3.0, start_seconds=60.0)
        return EngineConfig(EngineId(f"e{number}"), launch=launch, model="rehearsal-7b")

    async with open_pool() as pool, open_supervisor("s", draw=lambda: 0.0) as supervisor:
        for number, args in enumerate([("--kill-after", "4"), ()]):
            await supervisor.start_child(engine_spec_for(config(number, *args), pool, tmp_path))
        completions = []
        for step in range(12):
            message = Message("user", (TextPart(f"Goal: {step}"),))
            prompt = Prompt(f"r{step}", TenantId("t"), f"episode-{step % 4}", (message,), max_tokens=64)
            completions.append(await pool(prompt, deadline=trio.current_time() + 20))
        whys = [completion.why for completion in completions]
        assert whys.count("born") == 4
        assert whys.count("spilled") == 1
        assert all(completion.text for completion in completions)
        with trio.fail_after(60):
            while supervisor.statistics().child("engine-e0").starts < 2:
                await trio.sleep(0.02)
        assert supervisor.statistics().child("engine-e1").starts == 1
    assert pool.statistics().retried == 1
