"""Has a run's rows published now and then by a loader process. A failed publication changes nothing but a line."""

import math
import sys
from pathlib import Path

import trio

from runtime.process import ProcessError, ProcessPlan, ReadyLine, open_process
from runtime.telemetry import emit

PUBLISH_SECONDS = 60.0  # half a year of a fleet's rows is copied and written in less
DONE = '{"tenants"'
"""How the loader's last line begins."""


async def publish_now(folder: Path, log_path: Path) -> str | None:
    """Run the loader once on a warehouse folder; returns why it failed, or None.

    Args:
        folder: The warehouse folder.
        log_path: What the loader says is appended here.
    """
    plan = ProcessPlan(
        name="warehouse-loader",
        argv=(sys.executable, "-m", "actors.cli.main", "warehouse", "load", str(folder), "--json"),
        log_path=log_path,
        ready=ReadyLine(lambda line: line if line.startswith(DONE) else None),
        start_seconds=PUBLISH_SECONDS,
        stop_grace_seconds=1.0,  # nothing is lost if it is killed
    )
    try:
        async with open_process(plan) as process:
            await process.wait_exit()
    except ProcessError as error:
        return " ".join(error.reason.split())
    except OSError as error:
        return f"{error.filename or log_path}: {error.strerror or error}"
    return None


async def run_publications(folder: Path, log_path: Path, every_seconds: float) -> None:
    """Publish every so often until cancelled; 0 never."""
    await trio.sleep(every_seconds or math.inf)
    while True:
        failure = await publish_now(folder, log_path)
        if failure is not None:
            emit("actors.warehouse.publication_failed", level="warning", error=failure)
        await trio.sleep(every_seconds)
