"""Starts an engine by its launch profile: its flags are asked, its key is made, and it proves itself."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import trio

from actors.engine_proof import PROOF_FAILURES, prove_engine
from actors.nvidia_smi import query_topology
from inference.client import EngineClient
from inference.command import (
    PORTS,
    Invocation,
    cleanup_argv,
    help_argv,
    invocation_for,
    key_file_text,
    port_candidates,
    profile_of,
    spans_cards,
)
from inference.config import EngineConfig, LaunchConfig
from inference.engine_options import EngineOptions, parse_options
from inference.errors import EngineError, EngineNotReady, EngineRefused
from inference.launch_profile import LaunchProfile
from inference.topology import Topology, TopologyError
from runtime.process import ManagedProcess, ProcessLost, ProcessPlan, ReadyProbe, open_process
from runtime.secret import Secret
from runtime.telemetry import emit

HELP_SECONDS = 180.0  # SGLang imports PyTorch first: 10 s on an idle machine, minutes on a cold disk
CLEANUP_SECONDS = 30.0
KEY_BYTES = 32

_asked: dict[tuple[str, ...], EngineOptions] = {}  # {help command: its answer}; an engine does not change under us
_asking: dict[tuple[str, ...], trio.Lock] = {}


@attrs.frozen
class StartedEngine:
    """An engine that runs and has proved itself."""

    process: ManagedProcess
    url: str
    key: Secret
    invocation: Invocation


@attrs.define(eq=False)
class LadderState:
    """How far an engine has stepped down; kept over its restarts."""

    rung: int = 0


@asynccontextmanager
async def open_made_engine(
    config: EngineConfig, launch: LaunchConfig, log_dir: Path, ladder: LadderState
) -> AsyncIterator[StartedEngine]:
    """Start an engine by its profile, a rung lower after each start that fails; stop it when the block ends.

    Raises:
        EngineRefused: it is never started this way, or lacks what nothing can stand in for.
        EngineNotReady: it cannot be asked, found no port, or did not prove itself on the last rung.
        ProcessLost, ProcessNotReady: its process did not come up.
    """
    profile = profile_of(config, launch)
    options = await installed_options(config, launch, profile)
    topology = await _topology(config) if spans_cards(launch) else None
    while True:
        rung, came_up = ladder.rung, False
        try:
            async with _open_rung(config, launch, profile, options, topology, log_dir, rung) as started:
                came_up = True
                yield started
                return
        except (ProcessLost, *PROOF_FAILURES) as error:
            if came_up or rung >= len(profile.ladder):
                ladder.rung = rung if came_up else 0  # the next attempt may find what this one lacked
                raise
            ladder.rung = rung + 1
            emit(
                "actors.engine.stepped_down",
                level="warning",
                engine=config.id,
                gives_up=profile.ladder[rung].gives_up,
                error=str(error),
            )


async def installed_options(config: EngineConfig, launch: LaunchConfig, profile: LaunchProfile) -> EngineOptions:
    """The flags that the installed engine has; it is asked once.

    Raises:
        EngineNotReady: it does not say.
    """
    command = help_argv(config, launch, profile)
    async with _asking.setdefault(command, trio.Lock()):
        if command not in _asked:
            _asked[command] = await _ask(config, {**profile.environment, **launch.environment}, command)
            emit("actors.engine.options_read", engine=config.id, flags=len(_asked[command].choices))
    return _asked[command]


async def _ask(config: EngineConfig, environment: dict[str, str], command: tuple[str, ...]) -> EngineOptions:
    shown = " ".join(command)
    try:
        with trio.fail_after(HELP_SECONDS):
            done = await trio.run_process(
                command,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env={**os.environ, **environment, "COLUMNS": "200"},
            )
    except trio.TooSlowError as error:
        raise EngineNotReady(f"{shown} did not answer within {HELP_SECONDS:g} s", engine=config.id) from error
    except OSError as error:
        raise EngineNotReady(f"{command[0]} cannot be run: {error.strerror or error}", engine=config.id) from error
    options = parse_options(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0 or not options.choices:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:] or "nothing"
        raise EngineNotReady(f"{shown} ended with {done.returncode} and names no flags: {said}", engine=config.id)
    return options


@asynccontextmanager
async def _open_rung(
    config: EngineConfig,
    launch: LaunchConfig,
    profile: LaunchProfile,
    options: EngineOptions,
    topology: Topology | None,
    log_dir: Path,
    rung: int,
) -> AsyncIterator[StartedEngine]:
    key = Secret(secrets.token_urlsafe(KEY_BYTES))
    port = _port_for(config)
    with _key_file(key) as key_file:
        invocation = invocation_for(
            config,
            launch,
            profile,
            options,
            port=port,
            key=key.reveal(),
            key_file=str(key_file),
            rung=rung,
            topology=topology,
            numactl=shutil.which("numactl"),
        )
        for why in invocation.dropped:
            emit("actors.engine.flag_dropped", level="warning", engine=config.id, why=why)
        url = f"http://127.0.0.1:{port}"
        plan = ProcessPlan(
            name=config.id,
            argv=invocation.argv,
            log_path=log_dir / f"{config.id}.log",
            ready=ReadyProbe(url, EngineProbe(config, url, key)),
            environment=invocation.environment,
            start_seconds=launch.start_seconds,
            stop_grace_seconds=launch.stop_grace_seconds,
            redacted=True,
        )
        await _clean_up(config, launch)
        try:
            async with open_process(plan) as process:
                if launch.prove:
                    await prove_engine(config, launch, url, key)
                yield StartedEngine(process, url, key, invocation)
        finally:
            with trio.CancelScope(shield=True):  # bounded; a container that is left runs on the GPU for ever
                await _clean_up(config, launch)


@attrs.frozen
class EngineProbe:
    """Asks an engine that is starting, `/ping` and `/v1/loads`; a client each time, so that nothing is left open."""

    config: EngineConfig
    url: str
    key: Secret | None

    async def __call__(self) -> bool:
        """True when it answers."""
        client = EngineClient(self.config, self.url, api_key=self.key)
        try:
            await client.probe()
        except EngineError:  # it does not answer yet: that is the question
            return False
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()
        return True


def _port_for(config: EngineConfig) -> int:
    if config.url is not None:
        port = urlsplit(config.url).port
        if port is not None:
            if not _is_free(port):  # told here, before the weights are loaded once for each rung
                raise EngineNotReady(f"port {port} of its url is taken by another process", engine=config.id)
            return port
    for port in port_candidates(secrets.randbelow(PORTS)):
        if _is_free(port):
            return port
    raise EngineNotReady("none of 64 ports from 20000 up is free; set its url", engine=config.id)


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def _key_file(key: Secret) -> Iterator[Path]:
    """A file that only we can read, for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="corral-") as folder:  # made with 0700
        file = Path(folder) / "engine.yaml"
        file.touch(0o600)
        file.write_text(key_file_text(key.reveal()), "utf-8")
        yield file


async def _clean_up(config: EngineConfig, launch: LaunchConfig) -> None:
    command = cleanup_argv(config, launch)
    if not command:
        return
    with trio.move_on_after(CLEANUP_SECONDS) as patience, contextlib.suppress(FileNotFoundError, PermissionError):
        done = await trio.run_process(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, shell=False
        )
        emit("actors.engine.cleaned_up", level="debug", engine=config.id, exit_code=done.returncode)
        return
    why = f"it took more than {CLEANUP_SECONDS:g} s" if patience.cancelled_caught else f"{command[0]} cannot be run"
    emit("actors.engine.cleanup_failed", level="warning", engine=config.id, why=why)


async def _topology(config: EngineConfig) -> Topology:
    try:
        return await query_topology()
    except TopologyError as error:
        raise EngineRefused(
            f"it is to run on two cards, and their connection is not known: {error}", engine=config.id
        ) from error
