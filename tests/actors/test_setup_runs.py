"""Whole runs with setups, through genuine adb: logins with leased accounts, captchas, and no secret anywhere."""

import io
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner

from actors.assets import load_assets
from actors.cli.main import corral
from actors.control import ask
from actors.fleet import Fleet
from actors.phone_status import statuses
from actors.rehearsal.phone.serve import SimulatedPhone, serve_phones
from actors.rehearsal.phone.spec import PhoneSpec
from actors.results.replay import episode_folders, replay_episode
from actors.run import RunResult, run_scenario
from actors.scenario import parse_scenario
from policies.criteria import Outcome
from runtime import telemetry
from tests.kit.gate_app import GATE_PACKAGE, GATE_RULES, GateWorld, gate_of
from tests.kit.processes import descendants
from tests.kit.scenarios import SCENARIOS, needs_adb

pytestmark = needs_adb

USERS = {"USER_A": "ann@corral.example", "USER_B": "bob@corral.example"}
PASSWORDS = {"PASSWORD_A": "Tr0ub4dor'& 3 ann", "PASSWORD_B": "hunter2-of-bob"}
SECRETS = [*USERS.values(), *PASSWORDS.values()]

GATE = """
name = "gate"
seed = 3
[limits]
seconds = {seconds}
[capture]
every_seconds = 0.1
timeout_seconds = 3.0
[planner]
enabled = false
[apps.gate]
package = "{package}"
goal = "Play."
rules = "gate.rules.toml"
score = {{ kind = "logcat", pattern = "gate: .*score=([0-9]+)" }}
criteria = {{ min_score = 1 }}
needs_human = [{{ probe = "captcha" }}]
needs_human_seconds = {needs_human_seconds}
[apps.gate.setup]
{setup}
[[apps.gate.setup.flow]]
name = "log in"
when = [{{ probe = "login" }}]
do = {{ tap_match = "login" }}
expect = [{{ probe = "lobby" }}]
[[phones]]
kind = "adb"
app = "gate"
addresses = {addresses}
"""
TYPING = """
[[apps.gate.setup.flow]]
name = "user"
when = [{ probe = "login" }]
do = { text = "${account.user}" }
[[apps.gate.setup.flow]]
name = "password"
do = { text = "${account.password}" }
"""
ACCOUNTS = "".join(
    f'[[accounts]]\npool = "main"\nname = "{name}"\nuser_env = "USER_{x}"\npassword_env = "PASSWORD_{x}"\n'
    for name, x in (("ann", "A"), ("bob", "B"))
)

During = Callable[[Fleet], Awaitable[None]]


@attrs.define(eq=False)
class Stage:
    """Simulated phones in this process, and a folder with the files that a scenario names."""

    folder: Path
    world: GateWorld
    phones: tuple[SimulatedPhone, ...]

    async def play(self, during: During, *, extra: str = "", setup: str = "", **values: Any) -> RunResult:
        given = {"seconds": 2, "needs_human_seconds": 30, "package": GATE_PACKAGE, "setup": setup} | values
        addresses = json.dumps([phone.address for phone in self.phones])
        text = GATE.format(addresses=addresses, **given) + extra
        scenario = parse_scenario(text.encode(), "gate.toml")
        assets = load_assets(scenario, self.folder)
        return await run_scenario(scenario, assets, source=text.encode(), out=self.folder / "runs", view=during)


@asynccontextmanager
async def open_stage(folder: Path, *, phones: int = 1, after_login: str = "lobby") -> AsyncIterator[Stage]:
    world = GateWorld(after_login)
    (folder / "gate.rules.toml").write_text(GATE_RULES)
    specs = tuple(PhoneSpec(serial=f"GATE{n}", app=None, width=360, height=640) for n in range(phones))
    async with trio.open_nursery() as nursery:
        served = await nursery.start(serve_phones, specs, {"gate": world.make})
        yield Stage(folder, world, served)
        nursery.cancel_scope.cancel()


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (USERS | PASSWORDS).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Capture methods are measured afresh, and remembered here alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def log() -> Any:
    """Everything that is logged, at any level."""
    stream = io.StringIO()
    telemetry.configure(json=True, stream=stream, level="debug")
    yield stream
    telemetry.configure(level="warning")


def places_of(secret: str, folder: Path, log: str) -> list[str]:
    """Where a secret can be found, in any spelling that a file or a log line may give it."""
    spellings = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], secret.replace(" ", "%s")}
    found = ["log"] if any(spelling in log for spelling in spellings) else []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found += [str(path) for spelling in spellings if spelling.encode() in content or spelling in str(path)]
    return found


def shown_by_proc(pids: list[int]) -> str:
    """Command lines and environments of our child processes, as far as they have not ended meanwhile."""
    texts = []
    for pid in pids:
        for name in ("cmdline", "environ"):
            try:
                texts.append(Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
    return "\n".join(texts)


async def wait_state(fleet: Fleet, state: str, *, seconds: float = 15.0) -> None:
    with trio.fail_after(seconds):
        while all(row.state != state for row in statuses(fleet)):
            await trio.sleep(0.02)


async def test_three_phones_share_two_accounts_and_show_them_to_nobody(
    tmp_path: Path, secrets: None, log: io.StringIO
) -> None:
    (tmp_path / "base.apk").write_bytes(f"package={GATE_PACKAGE}\n".encode() + b"base" * 1000)
    (tmp_path / "split.apk").write_bytes(b"split" * 1000)
    setup = (
        'accounts = "main"\ninstall = ["base.apk", "split.apk"]\nreinstall = "always"\nclear = true\n'
        'grant = ["android.permission.CAMERA"]' + TYPING
    )
    most, states, proc = Counter[str](), set[str](), []

    async def watch(fleet: Fleet) -> None:
        while True:
            held = Counter(job.keeper.account.name for job in fleet.jobs if job.keeper.account is not None)
            for name, phones in held.items():
                most[name] = max(most[name], phones)
            states.update(row.state for row in statuses(fleet))
            proc.append(await trio.to_thread.run_sync(shown_by_proc, descendants(os.getpid())))
            await trio.sleep(0.1)

    async with open_stage(tmp_path, phones=3) as stage:
        result = await stage.play(watch, setup=setup, extra=ACCOUNTS)

        assert [s.outcome for s in result.summaries] == [Outcome.SUCCEEDED] * 3, result.summaries
        assert most == {"ann": 1, "bob": 1}, "an account is leased by one phone at a time"
        assert "waiting for an account" in states
        by_user = dict(zip(stage.world.texts[::2], stage.world.texts[1::2], strict=True))
        assert set(stage.world.texts) == set(SECRETS), by_user
        for phone in stage.phones:
            package = phone.handset.packages.find(GATE_PACKAGE)
            assert package is not None
            assert sorted(package.splits) == ["0.apk", "1.apk"]
            assert package.granted == {"android.permission.CAMERA"}
            assert package.data_cleared == 1
            assert gate_of(phone) is None, "the app is stopped after the episode"
    events = [json.loads(line) for line in (result.folder / "events.jsonl").read_text().splitlines()]
    leases = [e["account"] for e in events if e["event"] == "actors.account.leased"]
    assert len(leases) == 3
    assert Counter(leases) == Counter(e["account"] for e in events if e["event"] == "actors.account.released")
    assert len(log.getvalue()) > 1000
    for secret in SECRETS:
        assert places_of(secret, result.folder, log.getvalue()) == []
        assert secret not in "\n".join(proc)
    for phone in stage.phones:
        (episode,) = [e for e in episode_folders(result.folder) if phone.spec.serial in e.name]
        assert replay_episode(episode).differences == ()


async def test_captchas_in_setup_and_episode_wait_for_corral_resume(tmp_path: Path, log: io.StringIO) -> None:
    said: list[Any] = []

    async def cli(*arguments: str) -> Any:
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(corral, list(arguments)))

    async def help_twice(fleet: Fleet) -> None:
        folder = str(fleet.recorder.folder)
        app = None
        for screen_after in ("lobby", "lobby"):
            await wait_state(fleet, "needs_human")
            app = gate_of(stage.phones[0])
            assert app is not None
            score = app.score
            await trio.sleep(2.5)  # longer than the episode's limit: its clock stands
            assert app.score == score, "nobody touches a captcha"
            said.append(json.loads((await cli("status", folder, "--json")).output)["phones"][0])
            said.append((await cli("resume", folder, "NOBODY")).output)
            app.screen = screen_after
            said.append((await cli("resume", folder, "GATE0")).output)
            await wait_state(fleet, "playing")
            if len(said) == 3:
                await trio.sleep(0.7)
                app.screen = "captcha"
        said.append((await cli("resume", folder)).exit_code)
        await trio.sleep_forever()

    async with open_stage(tmp_path, after_login="captcha") as stage:
        result = await stage.play(help_twice)

    (summary,) = result.summaries
    assert summary.outcome is Outcome.SUCCEEDED, summary
    assert 1.9 <= summary.seconds < 3.0, "the pause does not count"
    for status, wrong, resumed in (said[0:3], said[3:6]):
        assert (status["state"], status["phone"]) == ("needs_human", "GATE0")
        assert "captcha" in status["why"]
        assert "there is no phone 'NOBODY'; phones are GATE0" in wrong
        assert resumed == "GATE0 goes on\n"
    assert said[6] == 1, "nobody waits any more"
    events = [json.loads(line)["event"] for line in (result.folder / "events.jsonl").read_text().splitlines()]
    assert events.count("actors.human.needed") == 1  # of the setup; an episode's own are its policy's
    assert events.count("policies.human.needed") == events.count("policies.human.resumed") == 1
    assert log.getvalue().count("actors.human.needed") == 2
    (episode,) = episode_folders(result.folder)
    replay = replay_episode(episode)
    assert replay.differences == ()
    assert (replay.tally.pauses, replay.tally.paused_seconds > 2.4) == (1, True)
    assert not (result.folder / "control.sock").exists()
    assert (await cli("status", str(result.folder))).exit_code == 2


async def test_a_captcha_that_nobody_solves_fails_the_episode_alone(tmp_path: Path) -> None:
    async def watch(fleet: Fleet) -> None:
        folder = fleet.recorder.folder
        await wait_state(fleet, "playing")
        app = gate_of(stage.phones[0])
        assert app is not None
        app.screen = "captcha"
        await wait_state(fleet, "needs_human")
        assert (await ask(folder, {"command": "status"}))["phones"][0]["state"] == "needs_human"
        await trio.sleep_forever()

    async with open_stage(tmp_path) as stage:
        result = await stage.play(watch, needs_human_seconds=1.5)

    (summary,) = result.summaries
    assert summary.outcome is Outcome.FAILED
    assert summary.reason.startswith("needs_human: nobody came within 1.5 s; the probe captcha")
    assert replay_episode(episode_folders(result.folder)[0]).differences == ()


async def test_the_shipped_login_scenario_logs_in_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    values = {f"CORRAL_{kind}_{n}": f"{kind.lower()}-value-{n}" for kind in ("USER", "PASSWORD") for n in (1, 2)}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    source = (SCENARIOS / "errands-login.toml").read_bytes()
    overrides = {"limits.seconds": "3", "planner.enabled": "false", "capture.every_seconds": "0.1"}
    scenario = parse_scenario(source, "errands-login.toml", overrides)
    scenario = attrs.evolve(scenario, engines=())
    first: dict[str, str] = {}

    async def watch(fleet: Fleet) -> None:
        while True:
            for job in fleet.jobs:
                percept = job.sessions[0].statistics.last_percept
                if percept is not None and job.phone not in first:
                    first[job.phone] = "lobby" if percept.readings["lobby"].hit else "elsewhere"
            await trio.sleep(0.05)

    result = await run_scenario(scenario, load_assets(scenario, SCENARIOS), source=source, out=tmp_path, view=watch)

    assert sorted(first.values()) == ["lobby", "lobby"], "an episode begins where the flow ends"
    assert {s.steps > 5 for s in result.summaries} == {True}
    for secret in values.values():
        assert places_of(secret, result.folder, log.getvalue()) == []
