"""`corral model`: profiles of vision-language models."""

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import attrs
import click
import trio
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from actors.assets import BUNDLED_PROFILES, bundled_profile, load_picture, load_profile
from actors.configuration import ScenarioError
from actors.modelcheck import Verdict, ask, drawn, encode_png, fields_for, judge, request_for, words_for
from actors.profiles.checks import profile_warnings
from inference.config import Dialect, EngineConfig, check_engine
from inference.errors import EngineError
from inference.messages import Completion
from runtime.ids import EngineId
from runtime.secret import SecretMissing
from runtime.telemetry import configure

EXIT_NO_ACTION = 1
EXIT_WRONG = 2
EXIT_ENGINE = 3


def positive_seconds(_context: click.Context, _parameter: click.Parameter, seconds: float) -> float:
    """A finite time above zero; `nan` and `inf` are floats too."""
    if not (math.isfinite(seconds) and seconds > 0):
        raise click.BadParameter(f"{seconds:g} is not a finite number of seconds above 0")
    return seconds


@click.group()
def model() -> None:
    """Model profiles: how a vision-language model is asked, and how its answers are read."""


@model.command()
@click.argument("name", required=False)
def show(name: str | None) -> None:
    """Print the file of the bundled profile NAME, to start one's own from; without NAME, list them."""
    if name is None:
        click.echo("\n".join(BUNDLED_PROFILES))
        return
    if name not in BUNDLED_PROFILES:
        _refuse(f"no bundled profile {name!r}: there are {', '.join(BUNDLED_PROFILES)}")
    click.echo(bundled_profile(name).decode("utf-8"), nl=False)


@model.command()
@click.option(
    "--vocabulary",
    type=click.Path(dir_okay=False, path_type=Path),
    help="In tiktoken's form: a token in base64 and its rank, a line each. Else Qwen's, where dashscope is installed.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON line a row.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As a table for a document.")
def tokens(vocabulary: Path | None, as_json: bool, as_markdown: bool) -> None:
    """Count the output tokens of actions in each language that a model may answer in.

    Latency is output tokens: the last column is what such an answer takes, predicted from published constants (A100, 50
    requests at a time), not measured here.

    Needs the extra `tokens`. Exit code: 0 done, 2 there is no vocabulary.
    """
    try:
        from actors.token_table import (  # noqa: PLC0415  # tiktoken is an extra
            COMPACT_ACTIONS,
            OTHER_TAPS,
            NoVocabulary,
            bundled_vocabulary,
            encoder_for,
            markdown_for,
            token_rows,
        )
    except ImportError:
        _refuse("counting tokens needs tiktoken: pip install 'corral[tokens]'")
    try:
        count = encoder_for(vocabulary or bundled_vocabulary())
    except NoVocabulary as error:
        _refuse(str(error))
    rows = token_rows(count, (*COMPACT_ACTIONS, *OTHER_TAPS))
    if as_json:
        for row in rows:
            click.echo(json.dumps(attrs.asdict(row)))
    elif as_markdown:
        click.echo(markdown_for(rows), nl=False)
    else:
        table = Table("action", "text", "tokens", "ms", box=None, pad_edge=False)
        for row in rows:
            table.add_row(row.what, escape(row.text.replace("\n", " ")), str(row.tokens), f"{row.decode_ms:.0f}")
        Console().print(table)


@model.command()
@click.argument("profile_name", metavar="PROFILE")
@click.argument("shot", type=click.Path(path_type=Path))
@click.option("--url", help="Ask this engine, http://host:port; without it, a reply must be given.")
@click.option("--model", "served", metavar="NAME", help="Name that the engine serves the model under; with --url.")
@click.option(
    "--dialect", default=Dialect.SGLANG.value, show_default=True, type=click.Choice([d.value for d in Dialect])
)
@click.option("--api-key-env", metavar="VAR", help="Environment variable with the engine's key.")
@click.option(
    "--timeout",
    "timeout_seconds",
    default=60.0,
    show_default=True,
    callback=positive_seconds,
    help="Seconds to wait for the engine.",
)
@click.option("--goal", default="Play on.", show_default=True, help="What the model is told to reach.")
@click.option("--reply", help="A reply to read instead of asking an engine.")
@click.option("--reply-file", type=click.Path(path_type=Path), help="The same, from a file; - is standard input.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to draw; by default SHOT with .actions.png.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def check(
    profile_name: str,
    shot: Path,
    url: str | None,
    served: str | None,
    dialect: str,
    api_key_env: str | None,
    timeout_seconds: float,
    goal: str,
    reply: str | None,
    reply_file: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Ask a model about the picture SHOT, or read a given reply, and draw where its actions land.

    PROFILE is a bundled profile's name or a profile file (*.toml). The prompt is the one that a bot sends first.
    Exit code: 0 an action was read, 1 none was, 2 wrong input, 3 the engine did not answer.
    """
    if sum(given is not None for given in (url, reply, reply_file)) != 1:
        _refuse("give exactly one of --url, --reply and --reply-file")
    configure(json=True, level="error")
    out = out or shot.with_suffix(".actions.png")
    if out.resolve() == shot.resolve():
        _refuse(f"--out {out} would overwrite the picture itself")
    try:
        profile = load_profile(profile_name, Path())
        pixels = load_picture(shot)
    except ScenarioError as error:
        _refuse(*(str(problem) for problem in error.problems))
    for message, path in profile_warnings(profile):
        click.echo(f"Warning: {profile_name}: {message} @ {path}", err=True)
    request = request_for(pixels, profile, goal)
    completion: Completion | None = None
    if url is not None:
        engine = _engine(url, served, dialect, api_key_env)
        asking = partial(ask, request, pixels, profile, engine, timeout_seconds=timeout_seconds)
        try:
            completion = trio.run(asking)
        except SecretMissing as error:
            _refuse(str(error))
        except EngineError as error:
            _refuse(f"{type(error).__name__}: {error}", code=EXIT_ENGINE)
        text, cut = completion.text, completion.finish_reason == "length"
    else:
        text, cut = _given(reply, reply_file), False
    verdict = judge(text, request, profile, cut=cut)
    try:
        out.write_bytes(encode_png(drawn(pixels, verdict.looks)))
    except OSError as error:
        _refuse(f"{out} cannot be written: {error.strerror or error}")
    if as_json:
        click.echo(json.dumps(_as_dict(profile.name, text, verdict, completion, out), ensure_ascii=False))
    else:
        _print(text, verdict, completion, out)
    sys.exit(0 if verdict.is_usable else EXIT_NO_ACTION)


def _engine(url: str, served: str | None, dialect: str, api_key_env: str | None) -> EngineConfig:
    if served is None:
        _refuse("--url needs --model: the name under which the engine serves the model")
    config = EngineConfig(EngineId("engine"), url=url, model=served, dialect=Dialect(dialect), api_key_env=api_key_env)
    problems = check_engine(config)
    if problems:
        _refuse(*(f"--{problem}" for problem in problems))
    return config


def _given(reply: str | None, reply_file: Path | None) -> str:
    if reply is not None:
        return reply
    assert reply_file is not None
    try:
        return sys.stdin.read() if str(reply_file) == "-" else reply_file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _refuse(f"{reply_file} cannot be read: {error}")


def _print(text: str, verdict: Verdict, completion: Completion | None, out: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print("reply", style="bold")
    console.print(text, markup=False)
    if completion is not None:
        usage = completion.usage
        seconds = completion.queue_seconds + completion.prefill_seconds + completion.decode_seconds
        console.print(
            f"{usage.prompt_tokens} prompt tokens ({usage.cached_tokens} cached), {usage.output_tokens} output tokens; "
            f"{seconds * 1000:.0f} ms: queue {completion.queue_seconds * 1000:.0f}, "
            f"prefill {completion.prefill_seconds * 1000:.0f}, decode {completion.decode_seconds * 1000:.0f}; "
            f"finish: {completion.finish_reason}",
            markup=False,
        )
    if verdict.looks:
        table = Table("", "the model says", "on the picture", box=None, header_style="bold")
        for look in verdict.looks:
            table.add_row(str(look.number), words_for(look.said), words_for(look.lands))
        console.print(table)
    for remark in _remarks(verdict):
        console.print(remark, markup=False)
    console.print(str(out), markup=False)


def _remarks(verdict: Verdict) -> list[str]:
    remarks = []
    if verdict.failure:
        remarks.append(f"no action: {verdict.failure}")
    if verdict.thinking:
        remarks.append(f"thoughts, not counted as reply: {len(verdict.thinking)} characters")
    if verdict.finish is not None:
        remarks.append(words_for(verdict.finish))
    if verdict.off_screen:
        remarks.append(f"dropped: {verdict.off_screen} actions from the first one on that is off the picture")
    if verdict.dropped:
        remarks.append(f"dropped: {verdict.dropped}")
    return remarks


def _as_dict(name: str, text: str, verdict: Verdict, completion: Completion | None, out: Path) -> dict[str, Any]:
    engine = None
    if completion is not None:
        engine = {
            "model": completion.model,
            "finish_reason": completion.finish_reason,
            **attrs.asdict(completion.usage),
            "queue_seconds": completion.queue_seconds,
            "prefill_seconds": completion.prefill_seconds,
            "decode_seconds": completion.decode_seconds,
        }
    return {
        "profile": name,
        "reply": text,
        "actions": [
            {"number": look.number, "model": fields_for(look.said), "device": fields_for(look.lands)}
            for look in verdict.looks
        ],
        "finish": None if verdict.finish is None else verdict.finish.success,
        "off_screen": verdict.off_screen,
        "dropped": verdict.dropped,
        "thinking": verdict.thinking,
        "failure": verdict.failure,
        "engine": engine,
        "picture": str(out),
    }


def _refuse(*lines: str, code: int = EXIT_WRONG) -> NoReturn:
    for line in lines:
        click.echo(f"Error: {line}", err=True)
    sys.exit(code)
