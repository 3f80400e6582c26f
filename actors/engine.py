"""The body of one engine: launched or found, registered with the pool while it answers."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import attrs
import trio

from inference.client import EngineClient
from inference.config import EngineConfig, LaunchKind
from inference.errors import EngineError, EngineLost, EngineNotReady
from inference.pool import EnginePool
from runtime.child import ChildContext, ChildSpec
from runtime.nursery import open_bare_nursery
from runtime.process import (
    ManagedProcess,
    ProcessLost,
    ProcessNotReady,
    ProcessPlan,
    ReadyLine,
    ReadyProbe,
    open_process,
)
from runtime.restart import Intensity, RestartKind
from runtime.secret import secret_from_environment

FOUND_START_SECONDS = 5.0  # an engine that somebody else runs is there or is not
DRAIN_SECONDS = 3.0  # a plan takes about one second; the next goes to another engine
ENGINE_INTENSITY = Intensity(max_restarts=5, period_seconds=300.0, cap_seconds=30.0, healthy_seconds=120.0)


@attrs.frozen
class EngineActor:
    """What an engine's body needs; calling it with a child's context runs it."""

    config: EngineConfig
    pool: EnginePool
    log_dir: Path
    """Where a launched engine's log goes, as `<id>.log`."""

    async def __call__(self, context: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        """See `run_engine`."""
        await run_engine(context, self.config, self.pool, self.log_dir, task_status=task_status)


def engine_spec_for(config: EngineConfig, pool: EnginePool, log_dir: Path) -> ChildSpec:
    """The engine as a permanent child; it is ready with its URL."""
    launch = config.launch
    wait_seconds = FOUND_START_SECONDS if launch is None else launch.start_seconds
    start_seconds = wait_seconds + 2 * config.probe_seconds + 1.0  # its own error comes first, and says more
    stop_seconds = 0.0 if launch is None else launch.stop_grace_seconds
    return ChildSpec(
        name=f"engine-{config.id}",
        run=EngineActor(config, pool, log_dir),
        restart=RestartKind.PERMANENT,
        start_seconds=start_seconds,
        shutdown_grace_seconds=DRAIN_SECONDS + stop_seconds + 1.0,
        intensity=ENGINE_INTENSITY,
    )


async def run_engine(
    context: ChildContext,
    config: EngineConfig,
    pool: EnginePool,
    log_dir: Path,
    *,
    task_status: trio.TaskStatus[Any],
) -> None:
    """Run one engine until it is asked to drain; ready with its URL once it answers.

    A restart registers the engine anew under its id, with whatever URL it then has. When this ends, the pool knows
    the engine no more, and its process is gone.

    Raises:
        EngineLost: the process ended by itself.
        EngineNotReady: it was not ready in time.
    """
    if config.launch is None:
        await _serve(context, config, pool, None, task_status)
        return
    try:
        async with open_process(process_plan_for(config, log_dir)) as process:
            await _serve(context, config, pool, process, task_status)
    except ProcessNotReady as error:
        raise EngineNotReady(error.reason, engine=config.id) from error
    except ProcessLost as error:
        raise EngineLost(error.reason, engine=config.id) from error


async def _serve(
    context: ChildContext,
    config: EngineConfig,
    pool: EnginePool,
    process: ManagedProcess | None,
    task_status: trio.TaskStatus[Any],
) -> None:
    url = config.url if process is None else process.address
    ended: list[int] = []
    pool.add_engine(config, url)
    try:
        async with open_bare_nursery() as nursery:

            async def watch() -> None:
                if process is not None:
                    ended.append(await process.wait_exit())
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            wait_seconds = FOUND_START_SECONDS if config.launch is None else math.inf  # a process has said it is ready
            with trio.move_on_after(wait_seconds) as waiting:
                await pool.wait_engine_answers(config.id)
            if waiting.cancelled_caught:
                last = pool.last_probe_error(config.id)
                raise EngineNotReady(f"{url} does not answer: {last or 'nothing came'}", engine=config.id)
            task_status.started(url)
            await context.draining.wait()
            nursery.cancel_scope.cancel()
    finally:
        await pool.drain_engine(config.id, grace_seconds=0.0 if ended else DRAIN_SECONDS)
    if ended:
        raise EngineLost(f"its process ended by itself with exit code {ended[0]}", engine=config.id)


def process_plan_for(config: EngineConfig, log_dir: Path) -> ProcessPlan:
    """How to run the engine's process.

    Raises:
        EngineNotReady: the configuration has no launch section, or lacks the URL that its kind needs.
    """
    launch = config.launch
    if launch is None:
        raise EngineNotReady("its configuration has no launch section", engine=config.id)
    environment = dict(launch.environment)
    if config.gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = str(config.gpu)
    if launch.kind is LaunchKind.REHEARSAL:
        rehearse = ("-m", "actors.cli.main", "engine", "rehearse", "--port", "0")
        argv, ready = (sys.executable, *rehearse, *launch.args), ReadyLine(url_in_ready_line)
        return _plan(config, argv, ready, environment, log_dir)
    if config.url is None:
        raise EngineNotReady(f"a launched {launch.kind} engine needs its url as well", engine=config.id)
    return _plan(config, launch.args, ReadyProbe(config.url, _Probe(config, config.url)), environment, log_dir)


def url_in_ready_line(line: str) -> str | None:
    """The URL in `{"ready": true, "url": "http://127.0.0.1:PORT"}`; None for any other line."""
    if not line.startswith("{"):
        return None
    try:
        said = json.loads(line)
    except ValueError:
        return None
    url = said.get("url")
    return url if said.get("ready") is True and isinstance(url, str) else None


@attrs.frozen
class _Probe:
    """Asks an engine that is starting; a client each time, so that nothing is left open."""

    config: EngineConfig
    url: str

    async def __call__(self) -> bool:
        key_name = self.config.api_key_env
        api_key = None if key_name is None else secret_from_environment(key_name)
        client = EngineClient(self.config, self.url, api_key=api_key)
        try:
            await client.probe()
        except EngineError:  # it does not answer yet: that is the question
            return False
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()
        return True


def _plan(
    config: EngineConfig,
    argv: tuple[str, ...],
    ready: ReadyLine | ReadyProbe,
    environment: dict[str, str],
    log_dir: Path,
) -> ProcessPlan:
    assert config.launch is not None
    return ProcessPlan(
        name=config.id,
        argv=argv,
        log_path=log_dir / f"{config.id}.log",
        ready=ready,
        environment=environment,
        start_seconds=config.launch.start_seconds,
        stop_grace_seconds=config.launch.stop_grace_seconds,
    )
