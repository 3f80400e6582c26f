"""`corral engine rehearse`: an engine without a model, for demos, rehearsals of bad days and tests."""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
import trio

from actors.rehearsal.engine.latency import LatencyModel
from actors.rehearsal.engine.options import RehearsalOptions, problems_in
from actors.rehearsal.engine.serve import PortUnavailable, run_engine
from runtime.secret import SecretMissing, secret_from_environment
from runtime.telemetry import configure

EXIT_USAGE = 2
_LATENCY = (
    *("ttft_ms", "tpot_ms", "latency_ms", "curve", "prefill_tokens_per_second", "chunk_tokens"),
    *("change_curve", "change_after"),
)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000.0


def _curve(_: click.Context, __: click.Parameter, text: str | None) -> tuple[tuple[int, float], ...] | None:
    if text is None:
        return None
    try:
        pairs = [point.split(":") for point in text.split(",")]
        return tuple((int(running), float(milliseconds) / 1000.0) for running, milliseconds in pairs)
    except ValueError as error:
        raise click.BadParameter("it must be like 1:13.09,50:16.36") from error


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, type=int, help="Port; 0 lets the system choose.")
@click.option("--model", default="rehearsal-7b", show_default=True, help="Served name; starts with `rehearsal-`.")
@click.option("--ttft-ms", type=float, help="Time to the first token; without it, the published curve.")
@click.option("--tpot-ms", type=float, help="Time per further token; without it, the published curve.")
@click.option("--latency-ms", type=float, help="Every answer takes exactly this, whatever its length.")
@click.option("--curve", callback=_curve, help="RUNNING:MS,RUNNING:MS,...: time per token by running requests.")
@click.option(
    "--change-curve", callback=_curve, help="Another curve, from --change-after on: a card that is clocked down."
)
@click.option("--change-after", default=0.0, type=float, help="Seconds after the first request.")
@click.option("--prefill-tokens-per-second", type=float, help="Prompts are computed at this rate; without it, at once.")
@click.option("--chunk-tokens", default=8192, show_default=True, type=int, help="Prompts are computed in such chunks.")
@click.option("--slots", default=64, show_default=True, type=int, help="Requests that run at once.")
@click.option("--max-queued", default=1024, show_default=True, type=int, help="Requests that may wait; then 503.")
@click.option("--context-length", default=32768, show_default=True, type=int, help="Longest prompt, in tokens.")
@click.option("--vision-cache", type=int, help="Pictures of a vision cache; counted in /metrics under vLLM's names.")
@click.option("--fail-rate", default=0.0, type=float, help="Share of completions that fail with a 500.")
@click.option("--garbage-rate", default=0.0, type=float, help="Share of completions that are no plan.")
@click.option("--kill-after", type=int, help="Die in the middle of the n-th completion.")
@click.option("--blind", is_flag=True, help="Answer a valid random plan without looking.")
@click.option("--fill", is_flag=True, help="With --blind: answers as long as they may be, the last action cut short.")
@click.option("--seed", default=0, show_default=True, type=int, help="Of failures, garbage and blind plans.")
@click.option("--api-key-env", help="Environment variable with the key that clients must send.")
def rehearse(**given: Any) -> None:
    """Run an engine that plays the bundled apps from their pictures, with a model's latency but without a model.

    When it listens, it prints one line: {"ready": true, "url": "http://..."}. SIGTERM lets running answers end.
    """
    options = _options_of(given)
    configure(json=True)
    problems = problems_in(options)
    if problems:
        _refuse("; ".join(problems))
    try:
        key = None if options.api_key_env is None else secret_from_environment(options.api_key_env)
        trio.run(run_engine, options, key)
    except (SecretMissing, PortUnavailable) as error:
        _refuse(str(error))


def _options_of(given: dict[str, Any]) -> RehearsalOptions:
    rest = {name: value for name, value in given.items() if name not in _LATENCY}
    latency = LatencyModel(
        _seconds(given["ttft_ms"]),
        _seconds(given["tpot_ms"]),
        _seconds(given["latency_ms"]),
        curve=given["curve"],
        prefill_tokens_per_second=given["prefill_tokens_per_second"],
        chunk_tokens=given["chunk_tokens"],
    )
    changed = given["change_curve"]
    return RehearsalOptions(
        latency=latency,
        changed=None if changed is None else LatencyModel(latency.ttft_seconds, curve=changed),
        change_after_seconds=given["change_after"],
        **rest,
    )


def _refuse(why: str) -> NoReturn:
    click.echo(f"corral engine rehearse: {why}", err=True)
    sys.exit(EXIT_USAGE)


def argument_problems(args: Sequence[str]) -> list[str]:
    """What is wrong with a command line of `rehearse`; empty where it may be started."""
    try:
        context = rehearse.make_context("corral engine rehearse", list(args))
    except click.UsageError as error:
        return [f"{error.format_message()} See corral engine rehearse --help"]
    except click.exceptions.Exit:
        return ["--help starts no engine"]
    return list(problems_in(_options_of(context.params)))
