"""The served assistant as a process: it says when it is ready, answers, and ends as it is asked to."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from click.testing import CliRunner

from actors.ask_remote import open_remote
from actors.ask_socket import parse_address
from actors.cli.assistant import assistant
from runtime.secret import Secret
from runtime.telemetry import configure
from sqlassist.messages import Event, Question, Stage
from tests.kit.assistant import make_tokens
from tests.kit.certificates import write_certificates
from tests.kit.scripted_assistant import scripted_module

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0


@attrs.define(eq=False)
class Running:
    process: trio.Process
    url: str
    token: Secret
    events: list[Event] = attrs.field(factory=list)

    async def take(self, event: Event) -> None:
        self.events.append(event)

    async def wait(self) -> int:
        with trio.fail_after(PATIENCE_SECONDS):
            return await self.process.wait()


def _write_config(folder: Path, more: str = "") -> tuple[Path, str]:
    (folder / "databases.toml").write_text("")
    _, tokens = make_tokens(folder / "tokens.json")
    path = folder / "assistant.toml"
    path.write_text(f'[sql]\nfile = "databases.toml"\n[listen]\nport = 0\n{more}\n')
    return path, tokens["north"]


@asynccontextmanager
async def _serving(folder: Path, more: str = "") -> AsyncIterator[Running]:
    config, token = _write_config(folder, more)
    command = [sys.executable, "-m", "tests.kit.scripted_assistant", str(config)]
    with (folder / "log").open("wb") as log:
        process = await trio.lowlevel.open_process(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            with trio.fail_after(PATIENCE_SECONDS):
                line = b""
                while not line.endswith(b"\n"):
                    piece = await process.stdout.receive_some(1000)
                    assert piece, (folder / "log").read_text()
                    line += piece
            ready = json.loads(line)
            assert ready["ready"] is True
            yield Running(process, ready["url"], Secret(token))
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                if process.stdout is not None:
                    await process.stdout.aclose()


async def test_it_answers_and_keeps_what_was_asked(tmp_path: Path) -> None:
    async with _serving(tmp_path, '[state]\nfolder = "state"') as served:
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_remote(parse_address(served.url), served.token) as asking:
                last = await asking.ask(Question("q1", "answer"), served.take)
        served.process.send_signal(signal.SIGTERM)
        code = await served.wait()

    (history,) = (tmp_path / "state" / "histories" / "north").iterdir()
    assert last.stage is Stage.ANSWER
    assert code == 0
    assert json.loads(history.read_text())["text"] == "answer"


async def test_sigterm_lets_a_question_end_within_its_grace(tmp_path: Path) -> None:
    async with _serving(tmp_path, "[limits]\ndrain_seconds = 0.5") as served:
        with trio.fail_after(PATIENCE_SECONDS):
            async with (
                open_remote(parse_address(served.url), served.token) as asking,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(asking.ask, Question("q1", "wait"), served.take)
                while not served.events:
                    await trio.sleep(0.01)
                served.process.send_signal(signal.SIGTERM)
                while not served.events[-1].is_last:
                    await trio.sleep(0.01)
        code = await served.wait()

    assert served.events[-1].data["code"] == "draining"
    assert code == 0


async def test_it_serves_over_tls(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    tls = 'tls_certificate = "server.pem"\ntls_key = "server.key"'
    async with _serving(tmp_path, tls) as served:
        with trio.fail_after(PATIENCE_SECONDS):
            address = parse_address(served.url)
            async with open_remote(address, served.token, ca_file=tmp_path / "ca.pem") as asking:
                last = await asking.ask(Question("q1", "answer"), served.take)

    assert address.is_tls
    assert last.stage is Stage.ANSWER


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        ("tokens", 2, "Error: "),
        ("config", 2, "'port'"),
        ("key", 3, "are no certificate and its key"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, code: int, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "actors.assistant", scripted_module())
    write_certificates(tmp_path)
    more = {"config": "port = -1", "key": 'tls_certificate = "server.pem"\ntls_key = "other.key"'}.get(damage, "")
    config, _ = _write_config(tmp_path, more)
    if damage == "tokens":
        (tmp_path / "tokens.json").unlink()
    if damage == "config":
        config.write_text(config.read_text().replace("port = 0\n", ""))
    try:
        done = CliRunner().invoke(assistant, ["serve", str(config)])
    finally:
        configure(level="warning")

    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_check_tells_what_is_wrong_and_starts_nothing(tmp_path: Path) -> None:
    config, _ = _write_config(tmp_path)
    sound = CliRunner().invoke(assistant, ["check", str(config)])
    (tmp_path / "databases.toml").unlink()
    wrong = CliRunner().invoke(assistant, ["check", str(config)])

    assert (sound.exit_code, sound.output) == (0, f"{config}: sound\n")
    assert (wrong.exit_code, "there is no file" in wrong.stderr) == (2, True)
