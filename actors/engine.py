"""The body of one engine: launched or found, registered with the pool while it answers."""

import json
import math
import secrets
import sys
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.engine_proof import PROOF_SECONDS, report_description
from actors.engine_start import (
    CLEANUP_SECONDS,
    HELP_SECONDS,
    KEY_BYTES,
    EngineProbe,
    LadderState,
    open_made_engine,
)
from actors.gpu_watch import watch_gpu
from actors.nvidia_smi import query_topology
from inference.command import KEY_VARIABLE, refusals_in, spans_cards
from inference.config import EngineConfig, LaunchConfig, LaunchKind, launch_of
from inference.errors import EngineLost, EngineNotReady, EngineRefused
from inference.pool import EnginePool
from inference.topology import Link, Topology, TopologyError
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
from runtime.secret import Secret, secret_from_environment
from runtime.telemetry import emit

ATTEMPTS = 5  # rungs of the longest ladder, and the first try
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
    ladder: LadderState = attrs.field(factory=LadderState)

    async def __call__(self, context: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        """See `run_engine`."""
        await run_engine(context, self.config, self.pool, self.log_dir, ladder=self.ladder, task_status=task_status)


def engine_spec_for(config: EngineConfig, pool: EnginePool, log_dir: Path) -> ChildSpec:
    """The engine as a permanent child; it is ready with its URL."""
    launch = launch_of(config)
    wait_seconds = FOUND_START_SECONDS
    if launch is not None:
        wait_seconds = launch.start_seconds
        if launch.model_path is not None:
            wait_seconds = HELP_SECONDS + ATTEMPTS * (launch.start_seconds + PROOF_SECONDS)
    start_seconds = wait_seconds + 2 * config.probe_seconds + 1.0  # its own error comes first, and says more
    stop_seconds = 0.0 if launch is None else launch.stop_grace_seconds
    if launch is not None and launch.cleanup:
        stop_seconds += CLEANUP_SECONDS
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
    ladder: LadderState | None = None,
    task_status: trio.TaskStatus[Any],
) -> None:
    """Run one engine until it is asked to drain; ready with its URL once it answers.

    A restart registers the engine anew under its id, with whatever URL it then has. When this ends, the pool knows
    the engine no more, and its process is gone.

    Args:
        context: of the child.
        config: of the engine.
        pool: that it is registered with.
        log_dir: for its log.
        ladder: how far it has stepped down so far.
        task_status: told the URL.

    Raises:
        EngineLost: the process ended by itself.
        EngineNotReady: it was not ready in time.
        EngineRefused: it is never started this way.
    """
    launch = launch_of(config)
    if launch is None:
        key = None if config.api_key_env is None else secret_from_environment(config.api_key_env)
        await _serve(context, config, pool, _Served(config.url or "", key), task_status)
        return
    try:
        if launch.model_path is not None:
            async with open_made_engine(config, launch, log_dir, ladder or LadderState()) as made:
                served = _Served(made.url, made.key, made.process, made.invocation.argv)
                await _serve(context, config, pool, served, task_status)
            return
        key = _rehearsal_key(config, launch)
        topology = await _topology_for(launch)
        async with open_process(process_plan_for(config, log_dir, key=key, topology=topology)) as process:
            served = _Served(process.address, key, process, launch.args)
            await _serve(context, config, pool, served, task_status)
    except ProcessNotReady as error:
        raise EngineNotReady(error.reason, engine=config.id) from error
    except ProcessLost as error:
        raise EngineLost(error.reason, engine=config.id) from error


@attrs.frozen
class _Served:
    """A running engine: ours, or somebody else's where there is no process."""

    url: str
    key: Secret | None
    process: ManagedProcess | None = None
    argv: tuple[str, ...] = ()


async def _serve(
    context: ChildContext,
    config: EngineConfig,
    pool: EnginePool,
    served: _Served,
    task_status: trio.TaskStatus[Any],
) -> None:
    ended: list[int] = []
    pool.add_engine(config, served.url, api_key=served.key)
    try:
        async with open_bare_nursery() as nursery:

            async def watch() -> None:
                if served.process is not None:
                    ended.append(await served.process.wait_exit())
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            wait_seconds = FOUND_START_SECONDS if served.process is None else math.inf  # a process has said it is ready
            with trio.move_on_after(wait_seconds) as waiting:
                await pool.wait_engine_answers(config.id)
            if waiting.cancelled_caught:
                last = pool.last_probe_error(config.id)
                raise EngineNotReady(f"{served.url} does not answer: {last or 'nothing came'}", engine=config.id)
            task_status.started(served.url)
            launch = launch_of(config)
            if launch is None or launch.kind is not LaunchKind.REHEARSAL:
                nursery.start_soon(report_description, config, served.url, served.key, served.argv, launch)
            if served.process is not None and config.gpu is not None:
                nursery.start_soon(watch_gpu, config.id, config.gpu, pool.set_engine_fit)
            await context.draining.wait()
            nursery.cancel_scope.cancel()
    finally:
        await pool.drain_engine(config.id, grace_seconds=0.0 if ended else DRAIN_SECONDS)
    if ended:
        raise EngineLost(f"its process ended by itself with exit code {ended[0]}", engine=config.id)


def _rehearsal_key(config: EngineConfig, launch: LaunchConfig) -> Secret | None:
    """A random key for a rehearsal engine, unless its configuration names one."""
    if launch.kind is not LaunchKind.REHEARSAL or config.api_key_env is not None or "--api-key-env" in launch.args:
        return None if config.api_key_env is None else secret_from_environment(config.api_key_env)
    return Secret(secrets.token_urlsafe(KEY_BYTES))


async def _topology_for(launch: LaunchConfig) -> Topology | None:
    """Of this host, where an engine is to run on several cards; None where it cannot be asked, or does not matter."""
    if launch.kind not in {LaunchKind.SGLANG, LaunchKind.VLLM} or not spans_cards(launch):
        return None
    try:
        return await query_topology()
    except TopologyError as error:  # the engine is refused then, as if there were no NVLink
        emit("actors.engine.topology_unknown", level="warning", error=str(error))
        return None


def process_plan_for(
    config: EngineConfig, log_dir: Path, *, key: Secret | None = None, topology: Topology | None = None
) -> ProcessPlan:
    """How to run the process of a rehearsal engine, or of one whose whole command line is given.

    Args:
        config: of the engine.
        log_dir: for its log.
        key: that a rehearsal engine shall ask for.
        topology: of the host; None: it has no NVLink, or that is not known.

    Raises:
        EngineNotReady: the configuration has no launch section, or lacks the URL that its kind needs.
        EngineRefused: its command line asks for what is never done here.
    """
    launch = launch_of(config)
    if launch is None:
        raise EngineNotReady("its configuration has no launch section", engine=config.id)
    environment = dict(launch.environment)
    if config.gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = str(config.gpu)
    if launch.kind is LaunchKind.REHEARSAL:
        rehearse = (sys.executable, "-m", "actors.cli.main", "engine", "rehearse", "--port", "0")
        asks: tuple[str, ...] = ()
        if key is not None and config.api_key_env is None:
            environment[KEY_VARIABLE], asks = key.reveal(), ("--api-key-env", KEY_VARIABLE)
        return _plan(config, (*rehearse, *launch.args, *asks), ReadyLine(url_in_ready_line), environment, log_dir)
    if config.url is None:
        raise EngineNotReady(f"a launched {launch.kind} engine needs its url as well", engine=config.id)
    if launch.kind in {LaunchKind.SGLANG, LaunchKind.VLLM}:
        nvlink = topology is not None and topology.has_nvlink
        refused = refusals_in(launch.args, pair=Link.NVLINK if nvlink else None)
        if refused:
            raise EngineRefused("; ".join(refused), engine=config.id)
    probe = EngineProbe(config, config.url, key)
    return _plan(config, launch.args, ReadyProbe(config.url, probe), environment, log_dir)


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


def _plan(
    config: EngineConfig,
    argv: tuple[str, ...],
    ready: ReadyLine | ReadyProbe,
    environment: dict[str, str],
    log_dir: Path,
) -> ProcessPlan:
    launch = launch_of(config)
    assert launch is not None
    return ProcessPlan(
        name=config.id,
        argv=argv,
        log_path=log_dir / f"{config.id}.log",
        ready=ready,
        environment=environment,
        start_seconds=launch.start_seconds,
        stop_grace_seconds=launch.stop_grace_seconds,
    )
