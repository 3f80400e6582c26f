"""`corral farm`: a daemon that plays submitted runs, and the commands that speak to it."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import attrs
import click

from actors.cli.farm_show import print_engines, print_farm, print_phones, print_run, print_runs
from actors.cli.token_option import TOKEN_VARIABLE, token_of
from actors.farm.client import BadFarmUrl, FarmClient, FarmRefused, FarmUnreachable, check_url, path_of

EXIT_REFUSED = 1
EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3
DEFAULT_URL = "http://127.0.0.1:8780"
URL_VARIABLE = "CORRAL_FARM_URL"
MAX_TEXT = 64 << 10
WATCH_SECONDS = 2.0

CONFIG = click.argument("config_file", metavar="CONFIG", type=click.Path(dir_okay=False, path_type=Path))
RUN = click.argument("run")


@attrs.frozen
class _Context:
    client: FarmClient
    as_json: bool

    def tell(self, value: Any, show: Callable[[Any], None]) -> None:
        """As JSON, or for people."""
        if self.as_json:
            click.echo(json.dumps(value, ensure_ascii=False, indent=1))
        else:
            show(value)


@click.group()
def farm() -> None:
    """A farm of phones: submit runs, and see what becomes of them (docs/farm.md)."""


def _client_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that speaks to a farm; and one line for every failure."""

    @click.option("--url", envvar=URL_VARIABLE, default=DEFAULT_URL, show_default=True, help=f"Also ${URL_VARIABLE}.")
    @click.option(
        "--token-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Holds the token; else ${TOKEN_VARIABLE} does.",
    )
    @click.option(
        "--ca-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Signed its certificate."
    )
    @click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
    @wraps(function)
    def command(url: str, token_file: Path | None, ca_file: Path | None, as_json: bool, **arguments: Any) -> None:
        with _errors_told():
            check_url(url)
            context = _Context(FarmClient(url, token_of(token_file, "a farm"), ca_file), as_json)
            function(context, **arguments)

    return command


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except BadFarmUrl as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    except FarmRefused as error:
        for line in error.problems or (str(error),):
            click.echo(f"Error: {line}", err=True)
        sys.exit(EXIT_WRONG if error.status in (400, 413, 422) else EXIT_REFUSED)
    except FarmUnreachable as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)


@farm.command()
@CONFIG
@click.option("--log-json/--log-text", "log_json", default=True, show_default=True, help="How standard error looks.")
def serve(config_file: Path, log_json: bool) -> None:
    """Run the farm of CONFIG until SIGTERM or Ctrl-C, which lets runs end; a second one cuts them.

    Prints one line, {"ready": true, "url": ...}, once clients may connect. SIGHUP reads CONFIG again: phones, engines,
    tenants, limits and prices. What was cut is queued again.

    Exit code: 0 ended as asked, 2 CONFIG is wrong, 3 the folder, the address or the assistant cannot be had.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is listened to
    from actors.farm import running  # noqa: PLC0415  # the web server and the fleet's values take a second to load

    sys.exit(running.run(config_file, log_json=log_json, on_ready=_tell_ready))


def _tell_ready(url: str) -> None:
    sys.stdout.write(json.dumps({"ready": True, "url": url}) + "\n")
    sys.stdout.flush()


@farm.command()
@click.argument("folder", default="farm-demo", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--port", type=click.IntRange(0, 65535), help="0: any free one. What farm.toml says, 8780 when it is made."
)
@click.option(
    "--scenarios",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Whose runs play, when farm.toml is made. The bundled ones.",
)
def demo(folder: Path, port: int | None, scenarios: Path | None) -> None:
    """Make a farm of eight simulated phones in FOLDER, and serve it on this machine alone, until Ctrl-C.

    Prints one link, which logs in by itself: whoever has it is the farm's admin. Something always plays. The farm.toml
    of a FOLDER that is there is used as it is.

    Exit code: 0 ended as asked, 2 the folder's farm.toml is wrong, 3 the folder or the address cannot be had.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from actors.farm import running  # noqa: PLC0415

    bundled = Path(__file__).resolve().parents[2] / "scenarios"

    def tell(link: str) -> None:
        click.echo(link)
        url = link.partition("/wall/")[0]
        hint = f"Ctrl-C ends it. It is all in {folder}; to work with it: --url {url} --token-file {folder / 'token'}"
        click.echo(hint, err=True)

    sys.exit(running.demo(folder, scenarios or bundled, port, tell=tell))


@farm.command()
@CONFIG
def check(config_file: Path) -> None:
    """Check CONFIG; nothing is started. Exit code: 0 sound, 2 every mistake was printed."""
    from actors.farm import running  # noqa: PLC0415

    sys.exit(running.check(config_file))


@farm.command()
@CONFIG
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def backup(config_file: Path, target: Path) -> None:
    """Write a copy of the state and the findings of the farm of CONFIG to TARGET; the farm may run meanwhile.

    Exit code: 0 written, 2 CONFIG is wrong, 3 it cannot be written, or was written without a tenant's findings, whose
    file is damaged.
    """
    from actors.farm import running  # noqa: PLC0415

    sys.exit(running.back_up(config_file, target))


@farm.command()
@CONFIG
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def restore(config_file: Path, source: Path) -> None:
    """Put the backup SOURCE in the place of the state and the findings of the farm of CONFIG, which must not run.

    What was there is kept beside it. A backup without findings leaves those of the farm as they are, and says so.

    Exit code: 0 restored, 2 CONFIG is wrong, 3 SOURCE is no whole backup, or the farm runs: nothing was changed.
    """
    from actors.farm import running  # noqa: PLC0415

    sys.exit(running.restore(config_file, source))


@farm.command()
@click.argument("scenario")
@click.option("--label", "labels", multiple=True, help="Every phone must have it. May be given again.")
@click.option("--priority", type=click.IntRange(0, 9), help="Among runs of the tenant; 9 is first.  [default: 5]")
@click.option("--not-before", help="A time with its offset: 2027-01-31T22:00:00+08:00.")
@click.option("--daily", metavar="HH:MM", help="Every day at this time, until it is cancelled.")
@click.option("--zone", default="UTC", show_default=True, help="Of --daily: Asia/Shanghai.")
@click.option("--repeats", type=click.IntRange(0, 10), help="Further attempts after one that failed.  [default: 0]")
@click.option("--fail-on-interrupt", is_flag=True, help="Do not queue it again when the farm ends under it.")
@_client_options
def submit(
    context: _Context,
    scenario: str,
    labels: tuple[str, ...],
    priority: int | None,
    not_before: str | None,
    daily: str | None,
    zone: str,
    repeats: int | None,
    fail_on_interrupt: bool,
) -> None:
    """Submit SCENARIO: a name that `corral farm scenarios` lists, or - to send a text from standard input.

    Prints the run's id. Exit code: 0 submitted, 1 the farm refuses, 2 the command line or the scenario is wrong, 3 no
    farm answers.
    """
    body: dict[str, Any] = {
        "priority": priority,
        "not_before": not_before,
        "repeats": repeats,
        "labels": list(labels) or None,
        "daily": {"at": daily, "zone": zone} if daily is not None else None,
        "on_interrupt": "fail" if fail_on_interrupt else None,
        **({"text": _standard_input()} if scenario == "-" else {"scenario": scenario}),
    }
    made = context.client.call("POST", path_of("runs"), {key: one for key, one in body.items() if one is not None})
    context.tell(made.json, lambda run: click.echo(run["run"]))


def _standard_input() -> str:
    try:
        text = sys.stdin.buffer.read(MAX_TEXT + 1).decode()
    except UnicodeDecodeError as error:
        raise click.UsageError("standard input is not UTF-8") from error
    if len(text) > MAX_TEXT:
        raise click.UsageError(f"a scenario as text has at most {MAX_TEXT} characters")
    return text


@farm.command("list")
@click.option("--state", help="Only these: queued, running, succeeded, failed, ...")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@_client_options
def list_command(context: _Context, state: str | None, limit: int) -> None:
    """List runs, the newest first."""
    found = context.client.call("GET", path_of("runs"), query={"state": state, "limit": limit}).json
    context.tell(found["runs"], print_runs)


@farm.command()
@RUN
@_client_options
def show(context: _Context, run: str) -> None:
    """Show RUN, its attempts, and its phones while it plays."""
    context.tell(context.client.call("GET", path_of("runs", run)).json, print_run)


@farm.command()
@RUN
@click.option("--attempt", type=click.IntRange(1), help="Which; without it, the last.")
@click.option("--follow", is_flag=True, help="Go on until the run has its result.")
@_client_options
def logs(context: _Context, run: str, attempt: int | None, follow: bool) -> None:
    """Print what the process of RUN says."""
    from actors.cli.farm_follow import follow_logs, log_text  # noqa: PLC0415

    answer = context.client.call("GET", path_of("runs", run, "logs"), query={"attempt": attempt})
    if context.as_json:
        click.echo(json.dumps({"run": run, "log": answer.body.decode("utf-8", "replace")}, ensure_ascii=False))
        return
    click.echo(log_text(answer.body), nl=False)
    if follow:
        follow_logs(context.client, run, attempt, int(answer.headers["x-next-offset"]))


@farm.command()
@click.option("--once", is_flag=True, help="Show it once; the default without a terminal.")
@_client_options
def top(context: _Context, once: bool) -> None:
    """Show how the farm is: phones, what plays, what waits and why; until Ctrl-C."""
    from actors.cli.farm_follow import look, watch  # noqa: PLC0415

    if context.as_json:
        click.echo(json.dumps(look(context.client), ensure_ascii=False, indent=1))
    elif once or not sys.stdout.isatty():
        print_farm(look(context.client))
    else:
        watch(context.client, WATCH_SECONDS)


@farm.command()
@_client_options
def phones(context: _Context) -> None:
    """List the phones that the token's tenant may use."""
    context.tell(context.client.call("GET", path_of("phones")).json["phones"], print_phones)


@farm.command()
@_client_options
def scenarios(context: _Context) -> None:
    """List what may be submitted by name."""
    context.tell(
        context.client.call("GET", path_of("scenarios")).json["scenarios"],
        lambda names: click.echo("\n".join(names)),
    )


@farm.command()
@click.option("--drain", "drained", metavar="ENGINE", help="Take this one out, and end it (admin).")
@click.option("--undrain", "undrained", metavar="ENGINE", help="Start this one again (admin).")
@click.option("--stop-rollout", is_flag=True, help="Change nothing more; what was changed by now stays (admin).")
@_client_options
def engines(context: _Context, drained: str | None, undrained: str | None, stop_rollout: bool) -> None:
    """Show the engines that all runs share, and the latest change of them."""
    call = context.client.call
    if (drained is not None) + (undrained is not None) + stop_rollout > 1:
        raise click.UsageError("one at a time: --drain, --undrain or --stop-rollout")
    if drained is not None:
        found = call("POST", path_of("engines", drained, "drain"))
    elif undrained is not None:
        found = call("DELETE", path_of("engines", undrained, "drain"))
    else:
        found = call("DELETE", path_of("rollout")) if stop_rollout else call("GET", path_of("engines"))
    context.tell(found.json, print_engines)


@farm.command()
@RUN
@_client_options
def cancel(context: _Context, run: str) -> None:
    """End RUN, wherever it is; a daily one makes no more runs."""
    _act(context, "POST", path_of("runs", run, "cancel"), "is being cancelled")


@farm.command()
@click.argument("run", required=False)
@click.option("--phone", help="Start nothing more on this phone (admin).")
@click.option("--hold", is_flag=True, help="Have a RUN that plays stand still where it is, instead of stopping it.")
@_client_options
def pause(context: _Context, run: str | None, phone: str | None, hold: bool) -> None:
    """Keep RUN, or a phone, from playing. A run that plays is stopped, and begins anew when it is resumed."""
    if (run is None) == (phone is None):
        raise click.UsageError("give a RUN or --phone; corral farm drain pauses the whole farm")
    if hold and run is None:
        raise click.UsageError("--hold is for a RUN")
    if run is not None:
        text = "stands still; corral farm resume lets it go on" if hold else "is paused"
        _act(context, "POST", path_of("runs", run, "pause"), text, {"hold": True} if hold else None)
    elif phone is not None:
        _act(context, "POST", path_of("phones", phone, "pause"), "is paused")


@farm.command()
@click.argument("run", required=False)
@click.option("--phone", help="Use this phone again (admin); with a RUN: go on after a person has helped on it.")
@_client_options
def resume(context: _Context, run: str | None, phone: str | None) -> None:
    """Let RUN, or a phone, go on."""
    if run is not None:
        body = {} if phone is None else {"phone": phone}
        _act(context, "POST", path_of("runs", run, "resume"), "goes on", body)
    elif phone is not None:
        _act(context, "POST", path_of("phones", phone, "resume"), "is used again")
    else:
        raise click.UsageError("give a RUN or --phone; corral farm drain --undo resumes the whole farm")


@farm.command()
@RUN
@click.option("--undo", is_flag=True, help="Let them go when they are old.")
@_client_options
def pin(context: _Context, run: str, undo: bool) -> None:
    """Keep the folders of RUN, whatever their age."""
    method, text = ("DELETE", "is not pinned any more") if undo else ("POST", "is pinned")
    _act(context, method, path_of("runs", run, "pin"), text)


@farm.command()
@click.option("--undo", is_flag=True, help="Take runs again.")
@_client_options
def drain(context: _Context, undo: bool) -> None:
    """Take no more runs (admin): those that play go on to their end, and a restart changes nothing of it."""
    found = context.client.call("DELETE" if undo else "POST", path_of("drain")).json
    playing = f"; {found['playing']} runs still play" if found.get("playing") else ""
    context.tell(found, lambda _: click.echo("the farm takes runs" if undo else f"the farm takes no runs{playing}"))


def _act(context: _Context, method: str, path: str, text: str, body: Mapping[str, Any] | None = None) -> None:
    found = context.client.call(method, path, body).json
    context.tell(found, lambda one: click.echo(f"{one.get('run') or one.get('phone')} {text}"))
