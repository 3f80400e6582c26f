"""`corral bench engine`: one engine over concurrency, or two side by side."""

import shlex
import sys
from pathlib import Path

import attrs
import click
import trio

from actors.assets import load_profile
from actors.bench.engine import EngineBench, EngineTarget, bench_engine, model_at, picture_of
from actors.bench.engine_ab import bench_ab
from actors.bench.engines import BenchUnavailable
from actors.bench.gpu_meter import open_gpus
from actors.bench.result import BenchResult, Tell
from actors.cli.bench_output import EXIT_WRONG, JSON_FILE, SEED, measure
from inference.config import Dialect, EngineConfig, check_engine
from runtime.ids import EngineId
from runtime.secret import Secret, SecretMissing, secret_from_environment

MOST_CONCURRENCY = 1024


def parse_levels(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    """`1,2,4` as numbers."""
    try:
        levels = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not like 1,2,4,8") from error
    if not all(1 <= level <= MOST_CONCURRENCY for level in levels):
        raise click.BadParameter(f"each must be from 1 to {MOST_CONCURRENCY}")
    return levels


@click.command()
@click.argument("url")
@click.option("--model", help="Name that the engine serves the model under; without it, the engine is asked.")
@click.option("--profile", default="compact", show_default=True, help="Model profile: a bundled one, or a .toml file.")
@click.option("--dialect", default="sglang", show_default=True, type=click.Choice([one.value for one in Dialect]))
@click.option("--api-key-env", help="Environment variable that holds the engine's key.")
@click.option("--ca-file", help="PEM file of the authority that signed an https engine's certificate.")
@click.option(
    "--concurrency",
    "concurrencies",
    default="1,2,4,8,16,32",
    show_default=True,
    callback=parse_levels,
    help="Requests at a time, one level after the other.",
)
@click.option(
    "--output-tokens", default=32, show_default=True, type=click.IntRange(2, 4096), help="At most, an answer."
)
@click.option(
    "--frames",
    "frames_folder",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="A run folder, or a folder of .jpg files: its frames are sent instead of a bundled app's.",
)
@click.option("--app", default="battler", show_default=True, help="Bundled app that draws the frames.")
@click.option("--free", is_flag=True, help="Do not constrain decoding, whatever the profile says.")
@click.option(
    "--ab", "other_url", metavar="URL2", help="Compare with this engine instead of sweeping; may be the same."
)
@click.option("--ab-model", help="Model at URL2; without it, that engine is asked.")
@click.option("--ab-profile", help="Profile for URL2; without it, as for URL.")
@click.option("--episodes", default=8, show_default=True, type=click.IntRange(1, 1000), help="--ab: of 6 prompts each.")
@click.option(
    "--svg", "svg_file", type=click.Path(dir_okay=False, path_type=Path), help="Draw the sweep into this file."
)
@SEED
@JSON_FILE
def engine(
    url: str,
    model: str | None,
    profile: str,
    dialect: str,
    api_key_env: str | None,
    ca_file: str | None,
    concurrencies: tuple[int, ...],
    output_tokens: int,
    frames_folder: Path | None,
    app: str,
    free: bool,
    other_url: str | None,
    ab_model: str | None,
    ab_profile: str | None,
    episodes: int,
    svg_file: Path | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """The engine at URL (http://host:port): time to the first token, per token and between tokens, throughput, cached
    share, and this process's CPU a request, at each concurrency; and the cached share of both prompt layouts.

    The file of --json is what `corral plan --measured` reads. Prompts are those of bots: a system prompt, a history and
    frames, six a bot. They are made before a level starts, and no bot sees another's frames, so no cache flatters the
    engine. On the engine's own machine its processes' CPU is told too, beside the GPU's utilisation where nvidia-ml-py
    is installed: "CPU full, GPU idle" means that decoding pictures holds the engine up. Where the engine counts them
    (vLLM), pictures found in its vision cache are told apart from tokens found in its KV cache.

    With --ab URL2 the same prompts go to both, alternating, one at a time: to compare two models, or one model with
    another setting such as the type of the KV cache. Also told: how often the replies are equal, and do the same.

    \b
    corral bench engine http://127.0.0.1:30000 --concurrency 1,8,32,64 --json curve.json --svg curve.svg
    corral plan --gpu 5090 --count 8 --measured curve.json
    corral bench engine http://127.0.0.1:30000 --ab http://127.0.0.1:30001 --frames runs/20261129T120000Z-c0ffee
    """  # noqa: D205, D301  # click reflows the text, and \b is its mark

    def run(tell: Tell) -> BenchResult:
        plan = EngineBench(
            concurrencies,
            output_tokens=output_tokens,
            app=app,
            frames_folder=frames_folder,
            constrained=not free,
            seed=seed,
        )
        key = _key(api_key_env)
        command = "corral " + shlex.join(sys.argv[1:])
        first = _target(url, model, profile, dialect, key, ca_file, "A")
        if other_url is not None:
            other = _target(other_url, ab_model, ab_profile or profile, dialect, key, ca_file, "B")
            return bench_ab(first, other, plan, command, episodes=episodes, tell=tell)
        return bench_engine(first, plan, command, gpus=open_gpus(), tell=tell)

    result = measure("engine", run, json_file)
    if svg_file is not None and result.points:
        try:
            svg_file.write_text(picture_of(result.points, result.summary["model"]), encoding="utf-8")
        except OSError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(EXIT_WRONG)
        click.echo(str(svg_file))


def _key(api_key_env: str | None) -> Secret | None:
    if api_key_env is None:
        return None
    try:
        key = secret_from_environment(api_key_env)
    except SecretMissing as error:
        raise BenchUnavailable(str(error)) from error
    if not all(" " <= char <= "~" for char in key.reveal()):
        raise BenchUnavailable(f"the key in {api_key_env} holds characters that no header can carry")
    return key


def _target(
    url: str, model: str | None, profile: str, dialect: str, key: Secret | None, ca_file: str | None, name: str
) -> EngineTarget:
    problems = check_engine(EngineConfig(EngineId(name), url=url))
    if problems:
        click.echo(f"Error: {problems[0]}", err=True)
        sys.exit(EXIT_WRONG)
    target = EngineTarget(url, load_profile(profile, Path()), model or "", Dialect(dialect), key, name, ca_file)
    found = model or trio.run(model_at, target)
    if found is None:
        raise BenchUnavailable(f"{url} does not say which model it serves: name it with --model")
    return attrs.evolve(target, model=found)
