"""What does it cost the phones when people look on? A wall of viewers against none, in pairs, on the same fleet.

The fleet (`wall_play`), the farm's daemon (`wall_farm`) and the viewers (`wall_viewers`) are processes of their own, as
in production. In one half of each pair all viewers watch every phone; in the other nobody is connected; which comes
first alternates. A phone misses a slot where it makes no step in a whole period of its own pace.
"""

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from actors.bench.bound_process import first_line, start_bound
from actors.bench.engines import BenchUnavailable
from actors.bench.processes import cpu_seconds
from actors.bench.result import BenchResult, Tell
from actors.bench.wall_play import STEPS_FILE
from actors.bench.wall_result import FPS, SIDE, Half, WallPlan, count, result_of
from actors.farm.client import FarmClient, path_of
from actors.token_store import Role, create_token
from runtime.ids import TenantId
from runtime.secret import Secret

START_SECONDS = 60.0
STOP_SECONDS = 60.0
SCENARIO = """
name = "wall"
[planner]
enabled = false
[apps.battler]
package = "dev.corral.battler"
goal = "Survive as many waves as you can."
[[phones]]
kind = "simulated"
app = "battler"
count = {phones}
"""
FARM = """
[listen]
port = 0
[[phones]]
name = "wall"
kind = "simulated"
count = {phones}
"""


def bench_wall(plan: WallPlan, *, tell: Tell) -> BenchResult:
    """Measure.

    Raises:
        BenchUnavailable: the farm, the fleet or the viewers do not start, or end by themselves.
        ValueError: fewer than two pairs tell nothing of the spread.
    """
    if plan.pairs < 2:
        raise ValueError("a spread needs two pairs or more")
    with tempfile.TemporaryDirectory(prefix="corral-wall-") as temporary:
        folder = Path(temporary)
        token = _prepare(folder, plan)
        with _farm(folder) as (daemon, url):
            client = FarmClient(url, token)
            run = _submit(client, plan, daemon)
            halves = []
            for number, (pair, viewers) in enumerate(_order(plan)):
                tell(f"pair {pair + 1}, {viewers or 'no'} viewers", number / (2 * plan.pairs))
                halves.append(_half(plan, pair, viewers, daemon.pid, url, token))
            client.call("POST", path_of("runs", run, "cancel"), None, None)
            steps = _steps(folder, daemon)
    for half in halves:
        count(half, steps)
    return result_of(plan, halves)


def _order(plan: WallPlan) -> list[tuple[int, int]]:
    """(pair, viewers) of each half."""
    both = (0, plan.viewers)
    return [(pair, viewers) for pair in range(plan.pairs) for viewers in (both if pair % 2 == 0 else both[::-1])]


def _prepare(folder: Path, plan: WallPlan) -> Secret:
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "wall.toml").write_text(SCENARIO.format(phones=plan.phones))
    (folder / "farm.toml").write_text(FARM.format(phones=plan.phones))
    made = create_token(
        folder / "tokens.json", user="wall", tenant=TenantId("wall"), roles=[Role.ADMIN], now=datetime.now(UTC)
    )
    return made[1]


@contextmanager
def _farm(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The daemon and its address; it has ended when the block has."""
    with (folder / "daemon.log").open("wb") as log:
        process = start_bound("actors.bench.wall_farm", str(folder / "farm.toml"), stderr=log)
    try:
        url = first_line(process, "the farm", START_SECONDS).strip()
        yield process, url
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BenchUnavailable(f"the farm does not end within {STOP_SECONDS:g} s") from error
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _submit(client: FarmClient, plan: WallPlan, daemon: "subprocess.Popen[bytes]") -> str:
    """The run, once all its phones play."""
    until = time.monotonic() + START_SECONDS + plan.phones / 10
    run = str(client.call("POST", path_of("runs"), {"scenario": "wall"}, None).json["run"])
    while True:
        rows = client.call("GET", path_of("phones"), None, None).json["phones"]
        if sum((row["live"] or {}).get("step", 0) > 2 for row in rows) == plan.phones:
            return run
        if daemon.poll() is not None or time.monotonic() > until:
            state = client.call("GET", path_of("runs", run), None, None).json["state"]
            raise BenchUnavailable(f"the phones do not play; the run is {state}")
        time.sleep(1.0)


def _half(plan: WallPlan, pair: int, viewers: int, daemon: int, url: str, token: Secret) -> Half:
    if not viewers:
        time.sleep(plan.settle_seconds)
        return _measured(plan, pair, 0, daemon)
    order = {"url": url, "token": token.reveal(), "viewers": viewers, "fps": FPS, "side": SIDE}
    process = start_bound("actors.bench.wall_viewers", stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        first_line(process, "the process of the viewers", START_SECONDS)
        time.sleep(plan.settle_seconds)
        half = _measured(plan, pair, viewers, daemon)
        said, _ = process.communicate(timeout=STOP_SECONDS)
    except (BrokenPipeError, subprocess.TimeoutExpired) as error:
        raise BenchUnavailable("the process of the viewers does not end, or has ended by itself") from error
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise BenchUnavailable(f"the process of the viewers ended with {process.returncode}")
    return _with_pictures(half, json.loads(said))


def _measured(plan: WallPlan, pair: int, viewers: int, daemon: int) -> Half:
    begin, cpu = time.monotonic(), cpu_seconds(daemon)
    time.sleep(plan.seconds)
    end = time.monotonic()
    return Half(pair, viewers, begin, end, round((cpu_seconds(daemon) - cpu) / (end - begin), 3))


def _with_pictures(half: Half, told: dict[str, Any]) -> Half:
    mine = [age for at, age in zip(told["at"], told["ages_ms"], strict=True) if half.begin <= at < half.end]
    half.pictures_per_second = round(len(mine) / (half.end - half.begin), 1)
    half.phones_seen = told["phones"]
    if mine:
        half.age_ms = round(median(mine), 1)
        half.kilobytes_per_picture = round(told["size_bytes"] / 1000 / len(told["at"]), 1)
    return half


def _steps(folder: Path, daemon: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What the fleet left when it ended."""
    until = time.monotonic() + STOP_SECONDS
    while time.monotonic() < until and daemon.poll() is None:
        for summary in folder.glob("**/summary.json"):  # it is written last
            found: dict[str, Any] = json.loads((summary.parent / STEPS_FILE).read_bytes())
            return found
        time.sleep(0.2)
    raise BenchUnavailable("the fleet left no times of its steps")
