"""A real SGLang started by its launch profile: proved, killed, started again, drained, and gone at the end."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
import structlog
import trio

from actors.engine import engine_spec_for
from inference.config import EngineConfig, LaunchConfig, LaunchKind
from inference.errors import EngineError
from inference.messages import Completion, Constraint, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId, TenantId
from runtime.supervisor import open_supervisor
from tests.kit.engine.environment import NICENESS, EngineEnvironment, engine_environment, sglang_marks

pytestmark = sglang_marks

START_SECONDS = 500.0
ANSWER_SECONDS = 120.0
MARK = "CORRAL_TEST_ENGINE"


@pytest.fixture(scope="module")
def environment() -> EngineEnvironment:
    return engine_environment()


def config_for(environment: EngineEnvironment) -> EngineConfig:
    launch = LaunchConfig(
        kind=LaunchKind.SGLANG,
        profile="sglang-cpu",
        model_path=str(environment.model),
        executable=("nice", "-n", str(NICENESS), str(environment.python), "-m", "sglang.launch_server"),
        environment={**environment.variables, MARK: uuid4().hex},
        args=(
            *("--max-total-tokens", "16384", "--sleep-on-idle"),
            *("--mm-process-config", '{"image":{"size":{"shortest_edge":4096,"longest_edge":1048576}}}'),
        ),
        start_seconds=START_SECONDS,
        stop_grace_seconds=10.0,
    )
    return EngineConfig(
        EngineId("managed"), model="tiny", launch=launch, probe_seconds=30.0, max_in_flight=8, session_cache=True
    )


def prompt(number: int, *, letters: int = 4) -> Prompt:
    text = Message("user", (TextPart("say something"),))
    return Prompt(
        f"launch-{number}",
        TenantId("bots"),
        "episode-1",
        (text,),
        max_tokens=letters,
        constraint=Constraint(regex=f"[a-z]{{{letters}}}"),
    )


async def ask(pool: EnginePool, one: Prompt) -> Completion:
    return await pool(one, deadline=trio.current_time() + ANSWER_SECONDS)


def processes_of(config: EngineConfig) -> set[int]:
    """Every process that was started for this engine, whoever its parent is by now: they inherit its environment."""
    assert config.launch is not None
    mark = f"{MARK}={config.launch.environment[MARK]}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


async def test_started_proved_killed_and_started_again(environment: EngineEnvironment, tmp_path: Path) -> None:
    config = config_for(environment)
    with structlog.testing.capture_logs() as logs:
        async with open_pool() as pool, open_supervisor("engines", draw=lambda: 0.0) as supervisor:
            await supervisor.start_child(engine_spec_for(config, pool, tmp_path))
            first = await ask(pool, prompt(1))
            again = await ask(pool, prompt(2))
            failed: list[EngineError] = []

            async def long_answer() -> None:
                try:
                    await ask(pool, prompt(3, letters=3000))
                except EngineError as error:
                    failed.append(error)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(long_answer)
                with trio.fail_after(ANSWER_SECONDS):
                    while not pool.statistics().engines[0].in_flight:
                        await trio.sleep(0.05)
                await trio.sleep(1.0)
                mine = processes_of(config)
                assert len(mine) >= 3, "a tokenizer, a scheduler and a detokenizer"
                for pid in mine:
                    with suppress(ProcessLookupError):  # it went with its parent
                        os.kill(pid, signal.SIGKILL)
            with trio.fail_after(START_SECONDS):
                while pool.statistics().engines:  # until it is known that it has gone
                    await trio.sleep(0.05)
                while not pool.statistics().engines:
                    await trio.sleep(0.2)
                await pool.wait_engine_answers(config.id)
            after = await ask(pool, prompt(4))
            pool.release("episode-1")
        with trio.fail_after(60):
            while processes_of(config):
                await trio.sleep(0.2)

    assert len(first.text) == 4
    assert again.usage.prompt_tokens == first.usage.prompt_tokens
    assert len(failed) == 1, "there was no second engine to go to"
    assert len(after.text) == 4
    mismatches = [entry["what"] for entry in logs if entry["event"] == "actors.engine.mismatched"]
    assert mismatches == []
