"""A real SGLang on a CPU for tests: an environment of its own, built once and kept between runs, and a tiny model.

It is built from published packages in about two minutes and takes 3 GB. Everything runs at a lower priority: beside it
other tests wait for clocks.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import attrs
import pytest

INSIDE = Path(__file__).parent / "inside"
TORCH = "torch==2.13.0"
TORCHVISION = "torchvision==0.28.0"
SGLANG = "sglang==0.5.23"
NICENESS = 10
BUILD_SECONDS = 900.0
FREE_BYTES = 6 << 30
_TAIL = 2000

sglang_marks: list[pytest.MarkDecorator] = [
    pytest.mark.sglang,
    pytest.mark.slow,
    pytest.mark.xdist_group("sglang"),
    pytest.mark.timeout(1200),
]
"""`pytestmark = sglang_marks` in a module whose tests use `engine_environment()`."""


class CannotBeBuilt(Exception):
    """There is no SGLang now."""


class NotForThisMachine(CannotBeBuilt):
    """There are no packages for it."""


@attrs.frozen
class EngineEnvironment:
    """Where SGLang is."""

    python: Path
    model: Path
    """A folder as `--model-path` wants it."""

    @property
    def variables(self) -> dict[str, str]:
        """What a CPU engine needs in its environment."""
        return {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

    def command(self, port: int, *more: str) -> tuple[str, ...]:
        """The command line of a server that fits the tests: small, on a CPU, with everything that Corral uses."""
        return (
            *("nice", "-n", str(NICENESS), str(self.python), "-m", "sglang.launch_server"),
            *("--model-path", str(self.model), "--served-model-name", "tiny"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--device", "cpu", "--attention-backend", "torch_native", "--mm-attention-backend", "sdpa"),
            *("--sampling-backend", "pytorch", "--disable-cuda-graph"),
            *("--max-total-tokens", "16384", "--max-running-requests", "8", "--chunked-prefill-size", "2048"),
            *("--enable-metrics", "--enable-cache-report", "--constrained-json-disable-any-whitespace"),
            *("--sleep-on-idle", "--enable-session-radix-cache", "--enable-streaming-session"),
            *("--enable-priority-scheduling", "--default-priority-value", "0", "--schedule-policy", "fcfs"),
            *("--mm-process-config", '{"image":{"size":{"shortest_edge":4096,"longest_edge":1048576}}}'),
            *more,
        )


@cache
def engine_environment() -> EngineEnvironment:
    """The environment, built at the first call. Skips the test where it cannot be; fails it under CI."""
    try:
        return built(_cache_folder())
    except CannotBeBuilt as error:
        if os.environ.get("CI") and not isinstance(error, NotForThisMachine):
            raise
        pytest.skip(f"SGLang cannot be had: {error}")


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "corral-tests" / "sglang"


def _missing() -> str | None:
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64":
        return "its packages are for Linux on x86_64"
    if sys.version_info[:2] != (3, 11):
        return "its packages are for Python 3.11"
    return None


def built(folder: Path) -> EngineEnvironment:
    """The environment in a folder; builds it if that was never done for these very packages.

    Raises:
        CannotBeBuilt: this machine has not what it takes, or a step failed; its output is told.
    """
    place = folder / _fingerprint()
    if (reason := _missing()) is not None:
        raise NotForThisMachine(reason)
    place.parent.mkdir(parents=True, exist_ok=True)
    if not (place / "ready").exists() and shutil.disk_usage(folder).free < FREE_BYTES:
        raise CannotBeBuilt(f"less than {FREE_BYTES >> 30} GiB are free in {folder}")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "ready").exists():
            for old in folder.iterdir():  # of other packages
                if old.is_dir():
                    shutil.rmtree(old)
            _build(place)
            (place / "ready").touch()
    return EngineEnvironment(place / "venv" / "bin" / "python", place / "models" / "tiny-qwen3-vl")


def _fingerprint() -> str:
    made = hashlib.sha256("\n".join((TORCH, TORCHVISION, SGLANG, sys.version)).encode())
    for path in sorted(INSIDE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            made.update(str(path.relative_to(INSIDE)).encode() + path.read_bytes())
    return made.hexdigest()[:16]


def _build(place: Path) -> None:
    venv = place / "venv"
    python = venv / "bin" / "python"
    _run(sys.executable, "-m", "venv", venv)
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "8")
    _run(*pip, TORCH)  # pip's own choice of torch is the build for this machine
    _run(*pip, "--no-deps", TORCHVISION, SGLANG, "-r", INSIDE / "requirements.txt")
    standin = place / "sgl_kernel_standin"
    shutil.copytree(INSIDE / "sgl_kernel_standin", standin, ignore=shutil.ignore_patterns("__pycache__"))
    _run(*pip, "--no-deps", standin)
    for packages in (venv / "lib").glob("python*/site-packages"):
        shutil.copy(INSIDE / "sitecustomize.py", packages)
    _run(python, INSIDE / "tiny_models.py", place / "models")


def _run(*command: object) -> None:
    try:
        subprocess.run(
            ["nice", "-n", str(NICENESS), *map(str, command)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotBeBuilt(f"{command[0]} took longer than {BUILD_SECONDS:g} s") from error
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stdout", None) or b"").decode("utf-8", "replace")[-_TAIL:]
        raise CannotBeBuilt(f"{' '.join(map(str, command))}: {error}\n{said}") from error
