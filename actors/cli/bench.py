"""`corral bench`: measurements that anybody can repeat; ratios side by side, with machine and commit."""

from pathlib import Path

import click

from actors.bench.actors import bench_actors
from actors.bench.capture import CaptureBench, bench_capture
from actors.bench.overlap import bench_overlap
from actors.bench.phones import bench_phones
from actors.bench.result import BenchResult, Tell
from actors.bench.sql import bench_guard
from actors.cli.bench_output import JSON_FILE, SEED, measure
from actors.cli.lazy_group import LazyGroup
from sqlassist.catalog import Dialect

DEFAULT_RULES = Path("scenarios/battler.rules.toml")


_MORE = {
    "assistant": "actors.cli.bench_assistant:assistant",
    "cache": "actors.cli.bench_cache:cache",
    "client": "actors.cli.bench_inference:client",
    "engine": "actors.cli.bench_engine:engine",
    "knee": "actors.cli.bench_inference:knee",
    "pool": "actors.cli.bench_inference:pool",
    "routing": "actors.cli.bench_inference:routing",
    "soak": "actors.cli.bench_soak:soak",
    "storm": "actors.cli.bench_storm:storm",
    "wall": "actors.cli.bench_wall:wall",
}


@click.group(cls=LazyGroup, lazy=_MORE)
def bench() -> None:
    """Benchmarks. Results of the project's own runs are in docs/benchmarks."""


@bench.command()
@click.option(
    "--pairs", default=5, show_default=True, type=click.IntRange(1, 1000), help="Seeds; each plays every way."
)
@click.option("--seconds", default=120.0, show_default=True, type=click.FloatRange(1), help="Game time an episode.")
@click.option("--latency-ms", default=300.0, show_default=True, type=click.FloatRange(0), help="Of every plan.")
@click.option("--act-ms", default=250.0, show_default=True, type=click.FloatRange(10), help="Between planned actions.")
@click.option(
    "--rules",
    default=DEFAULT_RULES,
    show_default=True,
    type=click.Path(path_type=Path),
    help="Reflexes of the game battler.",
)
@SEED
@JSON_FILE
def overlap(
    pairs: int, seconds: float, latency_ms: float, act_ms: float, rules: Path, seed: int, json_file: Path | None
) -> None:
    """Thinking while acting against thinking between acts, on a virtual clock: equal seeds, equal numbers."""

    def run(tell: Tell) -> BenchResult:
        return bench_overlap(
            seeds=range(seed, seed + pairs),
            seconds=seconds,
            latency_seconds=latency_ms / 1000,
            act_seconds=act_ms / 1000,
            rules_path=rules,
            tell=tell,
        )

    measure("overlap", run, json_file)


@bench.command()
@click.option("--actors", default=1000, show_default=True, type=click.IntRange(1, 32000), help="In this process.")
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(5), help="After the warm-up.")
@click.option("--limit/--no-limit", default=True, show_default=True, help="Find the number at which lag begins.")
@SEED
@JSON_FILE
def actors(actors: int, seconds: float, limit: bool, seed: int, json_file: Path | None) -> None:
    """Phone actors in one process, a step a second each: CPU a step, memory an actor, and whether they fall behind."""
    measure(
        "actors",
        lambda tell: bench_actors(actors=actors, seconds=seconds, seed=seed, find_limit=limit, tell=tell),
        json_file,
    )


@bench.command()
@click.option("--phones", default=64, show_default=True, type=click.IntRange(1, 512), help="Simulated phones.")
@click.option("--seconds", default=300.0, show_default=True, type=click.FloatRange(5), help="After the warm-up.")
@click.option("--many", default=128, show_default=True, type=click.IntRange(0, 512), help="Listed and driven; 0: none.")
@SEED
@JSON_FILE
def phones(phones: int, seconds: float, many: int, seed: int, json_file: Path | None) -> None:
    """Raw captures of simulated phones through one genuine adb server, one a second each: lag and CPU a capture.

    Then many phones at the same server: each is listed, captured, touched and captured again.
    """
    measure(
        "phones",
        lambda tell: bench_phones(phones=phones, seconds=seconds, many=many, seed=seed, tell=tell),
        json_file,
    )


@bench.command()
@click.argument("serials", nargs=-1, metavar="[SERIAL...]")
@click.option(
    "--scrcpy-server",
    "jar",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The server file of scrcpy 2.x to 4.x; without it real phones are not measured with scrcpy.",
)
@click.option("--captures", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Of each method.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 100), help="Of each comparison.")
@click.option("--phones", default=16, show_default=True, type=click.IntRange(1, 256), help="Simulated, for video.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(1), help="Of each side of a round.")
@SEED
@JSON_FILE
def capture(
    serials: tuple[str, ...],
    jar: Path | None,
    captures: int,
    rounds: int,
    phones: int,
    seconds: float,
    seed: int,
    json_file: Path | None,
) -> None:
    """Each capture method on the phones SERIAL...: time, CPU, bytes, and whether it shows what the reference shows.

    Without a phone, on simulated ones: also our client against adbutils, video against PNG, and the video's latency.
    """
    plan = CaptureBench(captures=captures, rounds=rounds, phones=phones, seconds=seconds, seed=seed)
    measure("capture", lambda tell: bench_capture(serials, plan, jar=jar, tell=tell), json_file)


@bench.command("sql-execution")
@click.argument("config_file", metavar="CONFIG", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--source", default="game", show_default=True, help="A server that holds the data of corral sql sample.")
@click.option("--tenant", default="tenant1", show_default=True, help="Whose rows are read.")
@click.option("--seconds", default=20.0, show_default=True, type=click.FloatRange(1), help="Of queries in one pool.")
@click.option("--cancels", default=400, show_default=True, type=click.IntRange(0, 100_000))
@SEED
@JSON_FILE
def sql_execution(
    config_file: Path, source: str, tenant: str, seconds: float, cancels: int, seed: int, json_file: Path | None
) -> None:
    """Queries a second of a pool of 16, the gain of pre-aggregation, and 400 random cancels, on a server of CONFIG.

    Accounts and views whose names begin with cbench_ are made on it, and removed at the end.
    """
    from actors.bench.sql_execution import run_from_file  # noqa: PLC0415  # it needs the extra `sql`

    measure(
        "sql-execution",
        lambda tell: run_from_file(config_file, source, tenant, seconds=seconds, cancels=cancels, seed=seed, tell=tell),
        json_file,
    )


@bench.command("sql")
@click.option("--schemas", required=True, type=click.Path(path_type=Path), help="As corral sql check --schema.")
@click.option("--queries", required=True, type=click.Path(path_type=Path), help='JSON lines {"sql": ..., "db": ...}.')
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100), help="Of every query.")
@JSON_FILE
def sql_guard(schemas: Path, queries: Path, rounds: int, json_file: Path | None) -> None:
    """The SQL guard: CPU time a query, in each dialect, and of compiling each database's decoding grammar."""
    measure(
        "sql",
        lambda tell: bench_guard(schemas=schemas, queries=queries, dialects=list(Dialect), rounds=rounds, tell=tell),
        json_file,
    )
