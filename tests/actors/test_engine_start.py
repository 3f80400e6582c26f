"""Engines that are started by profile: a real process that speaks SGLang's protocol, and misbehaves on request."""

import json
import os
import sys
from pathlib import Path

import attrs
import pytest
import structlog
import trio

from actors.engine import engine_spec_for
from actors.engine_proof import ProofFailed, proof_picture, sees_pictures
from actors.engine_start import LadderState, installed_options, open_made_engine
from inference.client import EngineClient
from inference.command import profile_of, setting_in
from inference.config import EngineConfig, LaunchConfig
from inference.errors import EngineError, EngineNotReady, EngineRefused
from inference.launch_profile import LAUNCH_PROFILES
from inference.messages import Constraint, Message, Prompt, TextPart
from inference.pool import open_pool
from runtime.ids import EngineId, TenantId
from runtime.process import ProcessLost
from runtime.supervisor import open_supervisor
from tests.kit.scripted_engine import ScriptedEngine, write_scripted_engine

LADDER = LAUNCH_PROFILES["sglang-5090"].ladder
FLAGS = tuple(
    dict.fromkeys(
        flag.name
        for flags in (LAUNCH_PROFILES["sglang-5090"].flags, *(rung.flags for rung in LADDER))
        for flag in flags
    )
)


@pytest.fixture
def engine(tmp_path: Path) -> ScriptedEngine:
    return write_scripted_engine(tmp_path, (*FLAGS, "--config", "--context-length"))


def launch_of(config: EngineConfig) -> LaunchConfig:
    assert config.launch is not None
    return config.launch


async def test_an_engine_starts_with_its_key_and_proves_itself(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = attrs.evolve(engine.config(), gpu=5)
    async with open_made_engine(config, launch_of(config), tmp_path / "logs", LadderState()) as started:
        log = (tmp_path / "logs" / "scripted.log").read_text("utf-8")
        pid = started.process.pid
        key_file = Path(setting_in(started.invocation.argv, "--config") or "")
        assert key_file.exists()

    assert not Path(f"/proc/{pid}").exists()
    assert not key_file.exists()
    assert "mode 0o600" in log
    assert started.key.reveal() not in log
    assert "'api_key': '***'" in log
    assert started.url.startswith(("http://127.0.0.1:2", "http://127.0.0.1:3"))
    assert [start["cards"] for start in engine.starts] == ["5"]
    asked = engine.traces[-1]
    assert (asked["asked"], asked["parts"]) == ("T[0-9]{3},[0-9]{3}", ["image_url", "text"])


async def test_flags_that_it_lacks_are_left_out_and_told(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config({"lacks": ["--enable-session-radix-cache"]})
    with structlog.testing.capture_logs() as logs:
        async with open_made_engine(config, launch_of(config), tmp_path, LadderState()) as started:
            pass

    assert "--enable-session-radix-cache" not in started.invocation.argv
    told = [entry["why"] for entry in logs if entry["event"] == "actors.engine.flag_dropped"]
    assert len(told) == 1
    assert told[0].startswith("--enable-session-radix-cache is left out")


async def test_it_steps_down_when_it_does_not_come_up_or_says_nonsense(engine: ScriptedEngine, tmp_path: Path) -> None:
    script: dict[str, object] = {
        "needs": {"SGLANG_VIT_ENABLE_CUDA_GRAPH": "0"},
        "refuses": {"--attention-backend": "flashinfer"},
    }
    config, ladder = engine.config(script), LadderState()
    async with open_made_engine(config, launch_of(config), tmp_path, ladder) as started:
        pass

    assert ladder.rung == 2
    assert started.invocation.given_up == tuple(rung.gives_up for rung in LADDER[:2])
    backends = [setting_in(start["argv"], "--attention-backend") for start in engine.starts]  # type: ignore[arg-type]
    assert backends == ["flashinfer", "flashinfer", "triton"]
    async with open_made_engine(config, launch_of(config), tmp_path, ladder):
        pass
    assert len(engine.starts) == 4, "a restart begins where the last one ended"


async def test_the_end_of_the_ladder(engine: ScriptedEngine, tmp_path: Path) -> None:
    config, ladder = engine.config({"grammar": False}), LadderState()
    with pytest.raises(ProofFailed, match="does not keep to a grammar: 'I would tap"):
        async with open_made_engine(config, launch_of(config), tmp_path, ladder):
            pytest.fail("it proved nothing")

    assert len(engine.starts) == len(LADDER) + 1
    assert ladder.rung == 0


async def test_a_process_that_dies_at_once_says_why(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config({"refuses": {"--host": "127.0.0.1"}})
    with pytest.raises(ProcessLost, match=r"RuntimeError: no kernel for --host"):
        async with open_made_engine(config, launch_of(config), tmp_path, LadderState()):
            pytest.fail("it is not there")


async def test_what_cannot_be_asked(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config({"help_exit": 3, "lacks": list(FLAGS)})
    with pytest.raises(EngineNotReady, match="names no flags"):
        await installed_options(config, launch_of(config), profile_of(config, launch_of(config)))
    gone = engine.config(executable=(str(tmp_path / "nothing"),))
    with pytest.raises(EngineNotReady, match="cannot be run: No such file"):
        await installed_options(gone, launch_of(gone), profile_of(gone, launch_of(gone)))


async def test_help_is_asked_once(engine: ScriptedEngine) -> None:
    config = engine.config()
    profile = profile_of(config, launch_of(config))
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(installed_options, config, launch_of(config), profile)

    assert len(engine.traces) == 1


async def test_what_is_refused_is_not_started(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config(args=("--kv-cache-dtype", "int4"))
    with pytest.raises(EngineRefused, match="INT4"):
        async with open_made_engine(config, launch_of(config), tmp_path, LadderState()):
            pytest.fail("it was started")

    assert engine.starts == []


async def test_the_whole_group_is_killed(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config({"child": True}, prove=False)
    async with open_made_engine(config, launch_of(config), tmp_path, LadderState()):
        log = (tmp_path / "scripted.log").read_text("utf-8")
    child = int(next(line.split()[1] for line in log.splitlines() if line.startswith("child ")))

    with trio.fail_after(30):
        while _runs(child):  # a grandchild is reaped by the system, at some moment
            await trio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_cleanup_runs_before_and_after(engine: ScriptedEngine, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    code = f"open({str(notes)!r}, 'a').write('{{id}} ')"
    config = engine.config(cleanup=(sys.executable, "-I", "-S", "-c", code))
    async with open_made_engine(config, launch_of(config), tmp_path, LadderState()):
        assert notes.read_text("utf-8") == "scripted "

    assert notes.read_text("utf-8") == "scripted scripted "


async def test_a_port_that_is_taken_is_passed_over(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config()
    async with (
        open_made_engine(config, launch_of(config), tmp_path, LadderState()) as first,
        open_made_engine(config, launch_of(config), tmp_path, LadderState()) as second,
    ):
        assert first.url != second.url


async def test_a_port_of_its_url_that_is_taken(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config()
    async with open_made_engine(config, launch_of(config), tmp_path, LadderState()) as first:
        same = attrs.evolve(config, url=first.url)
        with pytest.raises(EngineNotReady, match="is taken by another process"):
            async with open_made_engine(same, launch_of(same), tmp_path, LadderState()):
                pytest.fail("two listen on one port")

    assert len(engine.starts) == 1


async def test_a_rehearsal_engine_has_a_random_key_too(tmp_path: Path) -> None:
    config = EngineConfig(EngineId("r1"), launch=LaunchConfig(start_seconds=60.0), model="rehearsal-7b")
    async with open_pool() as pool, open_supervisor("s") as supervisor:
        await supervisor.start_child(engine_spec_for(config, pool, tmp_path))
        (seat,) = pool.statistics().engines
        stranger = EngineClient(config, seat.url)
        with pytest.raises(EngineError, match="401"):
            await stranger.probe()
        await stranger.aclose()


@pytest.mark.slow
async def test_as_a_child_it_serves_the_pool_and_comes_back(engine: ScriptedEngine, tmp_path: Path) -> None:
    config = engine.config({"info": {"disable_radix_cache": True}})
    message = Message("user", (TextPart("play"),))
    prompt = Prompt("r1", TenantId("t"), "k", (message,), max_tokens=8, constraint=Constraint(regex="T"))
    with structlog.testing.capture_logs() as logs:
        async with open_pool() as pool, open_supervisor("s", draw=lambda: 0.0) as supervisor:
            await supervisor.start_child(engine_spec_for(config, pool, tmp_path))
            assert (await pool(prompt, deadline=trio.current_time() + 30)).text == "T447,081"
            with trio.fail_after(30):
                while not any(entry["event"] == "actors.engine.mismatched" for entry in logs):
                    await trio.sleep(0.01)
            os.kill(_engine_pid(engine), 9)
            with trio.fail_after(60):
                while not (len(engine.starts) == 2 and pool.statistics().engines):
                    await trio.sleep(0.02)
                await pool.wait_engine_answers(config.id)
            assert (await pool(prompt, deadline=trio.current_time() + 30)).text == "T447,081"

    told = [entry["what"] for entry in logs if entry["event"] == "actors.engine.mismatched"]
    assert set(told) == {"its radix cache is off: every step of an episode is computed anew"}


def _engine_pid(engine: ScriptedEngine) -> int:
    """Of the program itself, which the group's leader started."""
    name = str(engine.folder / "engine.py").encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if name in words and b"--port" in words and not any(word.endswith(b"lifeline.py") for word in words):
                return int(entry.name)
    raise AssertionError("it does not run")


def test_the_picture_is_the_same_each_time() -> None:
    assert proof_picture() == proof_picture()
    assert proof_picture().jpeg.startswith(b"\xff\xd8")


def test_a_model_without_eyes_is_asked_in_words(tmp_path: Path) -> None:
    launch = LaunchConfig(model_path=str(tmp_path))
    assert sees_pictures(launch), "nothing is known"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3"}), "utf-8")
    assert not sees_pictures(launch)
    (tmp_path / "config.json").write_text(json.dumps({"vision_config": {}}), "utf-8")
    assert sees_pictures(launch)
    (tmp_path / "config.json").write_text("?", "utf-8")
    assert sees_pictures(launch)
