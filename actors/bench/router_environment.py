"""sglang-router in an environment of its own, built on demand: what our routing is measured against."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs

from actors.bench.engines import BenchUnavailable, get_text
from runtime.process import ProcessError, ProcessPlan, ReadyProbe, open_process

REQUIREMENT = "sglang-router==0.3.2"
BUILD_SECONDS = 600.0  # half a minute where the wheels are near
START_SECONDS = 60.0
FIRST_PORT, LAST_PORT = 21000, 31999  # below those that Linux takes for outgoing connections
_TAIL = 1000


@attrs.frozen
class RouterPolicy:
    """One way to run it."""

    name: str
    arguments: tuple[str, ...]


POLICIES = (
    RouterPolicy("cache_aware, default", ("--policy", "cache_aware")),
    RouterPolicy(
        "cache_aware, tuned",
        ("--policy", "cache_aware", "--balance-abs-threshold", "2", "--balance-rel-threshold", "1.1"),
    ),
    RouterPolicy("manual", ("--policy", "manual", "--assignment-mode", "min_group")),
)
"""Its default; tuned until it balances; and its stickiness by X-SMG-Routing-Key, in its most even mode."""


def cache_folder() -> Path:
    """Where environments are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "corral" / "sglang-router"


def built(folder: Path) -> Path:
    """The Python of the environment in a folder; builds it at the first call.

    Raises:
        BenchUnavailable: it cannot be built; the output of the step that failed is told.
    """
    place = folder / f"{REQUIREMENT.replace('==', '-')}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python = place / "bin" / "python"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "ready").exists():
                shutil.rmtree(place, ignore_errors=True)
                _run(sys.executable, "-m", "venv", str(place))
                _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT)
                (place / "ready").touch()
    except OSError as error:
        raise BenchUnavailable(f"an environment for {REQUIREMENT} cannot be made: {error}") from error
    return python


def _run(*command: str) -> None:
    try:
        subprocess.run(
            command,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchUnavailable(f"{' '.join(command)} took longer than {BUILD_SECONDS:g} s") from error
    except subprocess.CalledProcessError as error:
        said = (error.stdout or b"").decode("utf-8", "replace").strip()[-_TAIL:]
        raise BenchUnavailable(f"{' '.join(command)} ended with {error.returncode}: {said}") from error


@asynccontextmanager
async def open_router(python: Path, policy: RouterPolicy, urls: Sequence[str], folder: Path) -> AsyncIterator[str]:
    """The router in front of some engines, for the time of the block; gives its URL.

    Raises:
        BenchUnavailable: it did not start.
    """
    ports = _free_ports(2)
    url = f"http://127.0.0.1:{ports[0]}"
    argv = (
        *(str(python), "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(ports[0])),
        *("--worker-urls", *urls, "--prometheus-port", str(ports[1]), "--log-level", "error"),
        *("--max-concurrent-requests", "-1", *policy.arguments),
    )
    plan = ProcessPlan(
        name=f"router-{policy.name.replace(', ', '-')}",
        argv=argv,
        log_path=folder / f"router-{ports[0]}.log",
        ready=ReadyProbe(url, partial(_answers, url)),
        environment={"HF_HUB_OFFLINE": "1"},
        start_seconds=START_SECONDS,
        stop_grace_seconds=2.0,
    )
    try:
        async with open_process(plan):
            yield url
    except ProcessError as error:
        raise BenchUnavailable(f"sglang-router did not start: {error}") from error


async def _answers(url: str) -> bool:
    return await get_text(url, "/readiness") is not None


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; another process may take one meanwhile, and then the router says so."""
    found: list[int] = []
    start = FIRST_PORT + (os.getpid() * 13) % 8000
    for port in range(start, LAST_PORT):
        if _is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise BenchUnavailable(f"there are no {count} free ports from {start} to {LAST_PORT}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
