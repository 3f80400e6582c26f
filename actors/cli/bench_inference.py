"""`corral bench routing`, `client`, `pool` and `knee`: the inference plane on engines without a model."""

from pathlib import Path

import click

from actors.bench.client import bench_client
from actors.bench.knee import bench_knee
from actors.bench.pool import bench_pool
from actors.bench.router_environment import POLICIES
from actors.bench.routing import CELLS, bench_routing
from actors.cli.bench_output import JSON_FILE, SEED, measure


@click.command()
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1, 100), help="Of each cell.")
@click.option("--alone", is_flag=True, help="Our pool only, without sglang-router.")
@SEED
@JSON_FILE
def routing(repeats: int, alone: bool, seed: int, json_file: Path | None) -> None:
    """Episodes over four engines, routed by our pool and by sglang-router 0.3.2: wall time, latency, cached tokens.

    24 and 96 episodes in both prompt layouts; the router with its default policy, with a tuned one, and sticky by
    X-SMG-Routing-Key. Same bytes, same pauses; contestants take turns, and engines forget everything before each turn.
    The router is installed at the first call, into an environment of its own under the user's cache folder. Five
    repeats take about ten minutes.
    """
    policies = () if alone else POLICIES
    measure(
        "routing",
        lambda tell: bench_routing(repeats=repeats, seed=seed, cells=CELLS, policies=policies, tell=tell),
        json_file,
    )


@click.command()
@click.option("--requests", default=400, show_default=True, type=click.IntRange(8, 100_000), help="Of a stretch.")
@click.option("--repeats", default=9, show_default=True, type=click.IntRange(1, 1000), help="Stretches of each.")
@JSON_FILE
def client(requests: int, repeats: int, json_file: Path | None) -> None:
    """CPU of this process a request with a 100 KB image: the whole pool, beside a bare h11 loop with the same bytes.

    A server in a process of its own sends the same answer to everybody, an event a token. About half a minute.
    """
    measure("client", lambda tell: bench_client(requests=requests, repeats=repeats, tell=tell), json_file)


@click.command()
@click.option("--phones", default=100, show_default=True, type=click.IntRange(4, 1000), help="Without think time.")
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(2), help="Of each part.")
@JSON_FILE
def pool(phones: int, seconds: float, json_file: Path | None) -> None:
    """100 phones on two engines with the A100's curve: throughput beside what the curve allows, and latency of steps.

    Then on four engines, of which one is killed, and one is drained: requests that were lost, and the time until the
    phones of that engine got answers from others. About two minutes.
    """
    measure("pool", lambda tell: bench_pool(phones=phones, seconds=seconds, tell=tell), json_file)


@click.command()
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(5), help="To settle.")
@JSON_FILE
def knee(seconds: float, json_file: Path | None) -> None:
    """Does the number of requests at an engine settle at the knee of its time per token, and follow when it moves?

    Three engines with curves of known knees, one after the other, then one whose curve changes under load. About six
    minutes.
    """
    measure("knee", lambda tell: bench_knee(seconds=seconds, tell=tell), json_file)
