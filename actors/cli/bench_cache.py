"""`corral bench cache`: hits and false hits of each cache layer of the assistant."""

import sys
from pathlib import Path

import click

from actors.assistant_config import load_assistant_config
from actors.bench.cache import CacheBench, bench_cache, sample_databases
from actors.bench.result import BenchResult, Tell
from actors.cli.bench_output import JSON_FILE, SEED, measure
from actors.sql_configuration import load_sql_config
from runtime.ids import DEFAULT_TENANT, TenantId

EXIT_NOT_HELD = 1


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="As corral assistant serve takes it: its layer instead of the sample's. No database is asked.",
)
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Of --config.")
@click.option(
    "--questions", default=300, show_default=True, type=click.IntRange(1, 20_000), help="To make others of, a language."
)
@SEED
@JSON_FILE
def cache(config_file: Path | None, tenant: str, questions: int, seed: int, json_file: Path | None) -> None:
    """Ask caches for questions that differ in one thing from those they hold: month, server, metric, number, ...

    Exit code: 0 no layer that is on by default gave a wrong answer, 1 one did.
    """

    def run(tell: Tell) -> BenchResult:
        if config_file is None:
            return bench_cache(CacheBench(questions, seed), *sample_databases(), tell)
        config = load_sql_config(Path(load_assistant_config(config_file).sql.file))
        return bench_cache(CacheBench(questions, seed), config, TenantId(tenant), tell)

    result = measure("cache", run, json_file)
    sys.exit(0 if result.summary["held"] else EXIT_NOT_HELD)
