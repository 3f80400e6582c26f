"""The served farm as a process: signals, systemd, TLS, and the real `corral run` once."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.ask_remote import open_remote
from actors.ask_socket import parse_address
from actors.farm.client import FarmClient, FarmUnreachable, path_of
from actors.farm.database import open_database
from actors.farm.records import AttemptRecord, RunRecord
from actors.farm.store import Store
from actors.farm.systemd import Notifier, take_notifier
from actors.farm.work import AttemptOutcome, RunState
from actors.token_store import Role, create_token
from runtime.ids import TenantId
from runtime.secret import Secret
from sqlassist.messages import Event, Question, Stage
from tests.kit.certificates import write_certificates
from tests.kit.farm import PATIENCE_SECONDS, write_scenario

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """
[listen]
port = 0
{listen}
[[phones]]
name = "lab"
kind = "adb"
addresses = {addresses}
"""


def write_config(folder: Path, *addresses: str, listen: str = "") -> Path:
    file = folder / "farm.toml"
    file.write_text(CONFIG.format(addresses=json.dumps(addresses), listen=listen))
    return file


def make_token(folder: Path) -> Secret:
    name = TenantId("games")
    now = datetime.now(UTC)
    return create_token(folder / "tokens.json", user="ann", tenant=name, roles=[Role.ADMIN], now=now)[1]


@contextmanager
def served(*command: str, notify: str | None = None) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process and its address; ended whatever happens."""
    environment = (
        {**os.environ} if notify is None else {**os.environ, "NOTIFY_SOCKET": notify, "WATCHDOG_USEC": "900000"}
    )
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.05)
    return found


def test_signals_and_systemd(tmp_path: Path) -> None:
    write_scenario(tmp_path, "long", "seconds=3")
    token = make_token(tmp_path)
    file = write_config(tmp_path, "10.0.0.1:5555")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(PATIENCE_SECONDS)
        heard: list[str] = []

        def hear(what: str) -> None:
            while not heard or what not in heard[-1]:
                heard.append(told.recv(4096).decode())

        with served("tests.kit.farm_serve", str(file), notify=str(tmp_path / "notify")) as (process, url):
            hear("READY=1")
            hear("WATCHDOG=1")
            client = FarmClient(url, token)
            run = client.call("POST", path_of("runs"), {"scenario": "long"}).json["run"]
            until(lambda: client.call("GET", path_of("runs", run)).json["state"] == "running")

            write_config(tmp_path, "10.0.0.1:5555", "10.0.0.2:5555")
            process.send_signal(signal.SIGHUP)
            hear("RELOADING=1")
            hear("READY=1")
            until(lambda: len(client.call("GET", path_of("phones")).json["phones"]) == 2)
            file.write_text("nonsense")
            process.send_signal(signal.SIGHUP)
            hear("RELOADING=1")
            hear("READY=1")
            assert len(client.call("GET", path_of("phones")).json["phones"]) == 2
            assert client.call("GET", path_of("runs", run)).json["state"] == "running"

            process.send_signal(signal.SIGTERM)
            hear("STOPPING=1")
            assert process.wait(timeout=PATIENCE_SECONDS) == 0
    (found, attempts) = _kept(tmp_path, run)
    assert found.state is RunState.SUCCEEDED, "the drain let it end"
    assert len(attempts) == 1


def _kept(folder: Path, run: str) -> tuple[RunRecord, list[AttemptRecord]]:
    database = open_database(folder / "farm" / "state.sqlite3")
    try:
        store = Store(database)
        return store.run(run), store.attempts(run)
    finally:
        database.close()


def test_a_second_signal_cuts_what_plays_and_it_is_not_lost(tmp_path: Path) -> None:
    write_scenario(tmp_path, "long", "seconds=600")
    token = make_token(tmp_path)
    file = write_config(tmp_path, "10.0.0.1:5555")
    with served("tests.kit.farm_serve", str(file)) as (process, url):
        client = FarmClient(url, token)
        run = client.call("POST", path_of("runs"), {"scenario": "long"}).json["run"]
        until(lambda: client.call("GET", path_of("runs", run)).json["state"] == "running")
        process.send_signal(signal.SIGTERM)
        until(lambda: client.call("GET", path_of("farm")).json["draining"])
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_SECONDS)
    (found, attempts) = _kept(tmp_path, run)
    assert found.state is RunState.RUNNING, "the next daemon queues it again: see test_kills"
    assert [one.outcome for one in attempts] == [AttemptOutcome.RUNNING]


async def test_tls_and_the_assistant_beside_the_api(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    write_certificates(tmp_path)
    token = make_token(tmp_path)
    (tmp_path / "databases.toml").write_text("")
    (tmp_path / "assistant.toml").write_text('[sql]\nfile = "databases.toml"\n')
    file = write_config(tmp_path, "x", listen='tls_certificate = "server.pem"\ntls_key = "server.key"')
    file.write_text(file.read_text() + '[assistant]\nfile = "assistant.toml"\n')
    events: list[Event] = []

    async def take(event: Event) -> None:
        events.append(event)

    def call(url: str, authority: str | None) -> Any:
        ca_file = None if authority is None else tmp_path / authority
        return FarmClient(url, token, ca_file).call("GET", path_of("scenarios")).json

    def ticket(url: str) -> Secret:
        return Secret(FarmClient(url, token, tmp_path / "ca.pem").call("POST", path_of("tickets"), {}).json["ticket"])

    with served("tests.kit.farm_serve", str(file)) as (process, url):
        assert url.startswith("https://127.0.0.1:")
        assert await trio.to_thread.run_sync(call, url, "ca.pem") == {"scenarios": ["good"]}
        with pytest.raises(FarmUnreachable, match="TLS failed"):
            await trio.to_thread.run_sync(call, url, "other.pem")
        with pytest.raises(FarmUnreachable):
            await trio.to_thread.run_sync(call, url.replace("https", "http"), None)
        address = parse_address(url.replace("http", "ws"))
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_remote(address, token, ca_file=tmp_path / "ca.pem") as remote:
                await remote.ask(Question("q1", "answer"), take)
        assert events[-1].stage is Stage.ANSWER
        client = FarmClient(url, token, tmp_path / "ca.pem")
        pinned = await trio.to_thread.run_sync(_pinned, client)
        assert (pinned["last"]["state"], pinned["last"]["summary"]) == ("succeeded", "42")
        made = await trio.to_thread.run_sync(ticket, url)
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_remote(address, made, ca_file=tmp_path / "ca.pem") as remote:
                await remote.ask(Question("q2", "answer"), take)
        assert len([one for one in events if one.stage is Stage.ANSWER]) == 2, "a ticket is taken in a token's place"
        process.send_signal(signal.SIGTERM)
        assert await trio.to_thread.run_sync(process.wait, PATIENCE_SECONDS) == 0


async def test_a_killed_farm_asks_its_pins_again(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    token = make_token(tmp_path)
    (tmp_path / "databases.toml").write_text("")
    (tmp_path / "assistant.toml").write_text('[sql]\nfile = "databases.toml"\n')
    file = write_config(tmp_path, "x")
    file.write_text(file.read_text() + '[assistant]\nfile = "assistant.toml"\n')

    def until_tried(pin: str, times: int) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            state = sqlite3.connect(f"file:{tmp_path / 'farm' / 'state.sqlite3'}?mode=ro", uri=True)
            try:
                row = state.execute("SELECT tries, began_at FROM pins WHERE pin = ?", (pin,)).fetchone()
            finally:
                state.close()
            if row[0] == times and row[1] is not None:
                return True
            time.sleep(0.05)
        return False

    with served("tests.kit.farm_serve", str(file)) as (process, url):
        made = FarmClient(url, token).call("POST", path_of("pins"), {"question": "wait"}).json["id"]
        assert await trio.to_thread.run_sync(until_tried, made, 1)
        process.kill()
        process.wait()
    with served("tests.kit.farm_serve", str(file)) as (process, url):
        assert await trio.to_thread.run_sync(until_tried, made, 2)
        shown = FarmClient(url, token).call("GET", path_of("pins", made)).json
        assert (shown["state"], shown["question"]) == ("asking", "wait")


def _pinned(client: FarmClient) -> Any:
    """A pin, once it has its answer."""
    made = client.call("POST", path_of("pins"), {"question": "answer"}).json
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        shown = client.call("GET", path_of("pins", made["id"])).json
        if shown["last"] is not None:
            return shown
        time.sleep(0.05)
    raise AssertionError("it was never asked")


def _real(folder: Path) -> Path:
    (folder / "scenarios").mkdir()
    file = folder / "farm.toml"
    file.write_text('[listen]\nport = 0\n[[phones]]\nname = "sim"\nkind = "simulated"\ncount = 2\n')
    return file


TEXT = """
name = "mine"
[limits]
seconds = 1
[planner]
enabled = false
[apps.battler]
package = "dev.corral.battler"
goal = "Survive."
score = { kind = "logcat", pattern = "battler: .*score=([0-9]+)" }
[[phones]]
kind = "simulated"
app = "battler"
bot = "random"
count = 2
"""


@pytest.mark.adb
@pytest.mark.xdist_group("fleet")
def test_a_real_run_on_simulated_phones(tmp_path: Path) -> None:
    token = make_token(tmp_path)
    with served("actors.cli.main", "farm", "serve", str(_real(tmp_path))) as (_, line):
        client = FarmClient(json.loads(line)["url"], token)
        run = client.call("POST", path_of("runs"), {"text": TEXT}).json["run"]
        progress = until(lambda: client.call("GET", path_of("runs", run)).json["progress"])
        until(lambda: client.call("GET", path_of("runs", run)).json["state"] in ("succeeded", "failed"))
        shown = client.call("GET", path_of("runs", run)).json
        report = client.call("GET", path_of("runs", run, "results", "report.html"))

        assert {one["app"] for one in progress} == {"battler"}
        assert shown["attempts"][0]["result"]["episodes"] == 2
        assert b"<html" in report.body
        assert (tmp_path / "farm" / "runs" / run / "summary.json").is_file()


async def test_a_daemon_that_hangs_gives_no_sign_of_life(tmp_path: Path, autojump_clock: Any) -> None:
    del autojump_clock
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.setblocking(False)
        alive = [True]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Notifier(str(tmp_path / "notify"), 30.0).run_watchdog, lambda: alive[0])
            await trio.sleep(25)
            alive[0] = False
            await trio.sleep(100)
            nursery.cancel_scope.cancel()
        heard = []
        while True:
            try:
                heard.append(told.recv(100))
            except BlockingIOError:
                break
    assert heard == [b"WATCHDOG=1"] * 3


def test_the_environment_of_children_does_not_speak_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "@corral-test")
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")

    notifier = take_notifier()

    assert notifier == Notifier("@corral-test", None), "another process is watched"
    assert "NOTIFY_SOCKET" not in os.environ
    notifier.ready("nobody listens: an event, no error")
