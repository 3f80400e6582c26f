"""Setup and teardown on a phone that only pretends: what is done in which order, and what is let go of."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import trio
from structlog.testing import capture_logs

from actors.accounts import Account, AccountPools, Secrets
from actors.assets import AppAssets
from actors.devices.base import (
    ActionRefused,
    CaptureFailed,
    DeviceError,
    DeviceInfo,
    DeviceLost,
    DeviceTimeout,
    ShellResult,
)
from actors.rulefile import parse_rule_file
from actors.scenario import AppConfig
from actors.setup import CAPTURE_RETRIES, AppKeeper
from actors.setup_config import Reinstall, SetupConfig, TeardownConfig
from inference.profile import ModelProfile
from policies.action import Action, KeyName, Tap, Text
from policies.flow import FlowAction, FlowStep, OnError
from policies.frame import Frame
from policies.geometry import Geometry
from policies.human import Resume
from policies.perception import compile_probes
from policies.reflex import Condition
from runtime.ids import PhoneId
from runtime.secret import Secret
from tests.kit.gate_app import COLORS, GATE_RULES

PASSWORD = "correct horse battery"
INFO = DeviceInfo(PhoneId("P0"), "here:1", "Pretend", "13")
LOGIN = FlowStep(
    "log in", (Condition("login"),), FlowAction(tap_match="login"), (Condition("lobby"),), timeout_seconds=5.0
)
TYPE = FlowStep("password", (Condition("login"),), FlowAction(text="${account.password}"))


@attrs.define(eq=False)
class PretendPhone:
    """Implements `Device` as far as a setup needs it."""

    screen: str = "login"
    after_tap: str = "lobby"
    installed: bool = False
    info: DeviceInfo = INFO
    done: list[str] = attrs.field(factory=list)
    refuse: Callable[[str], DeviceError | None] = lambda _: None
    captures: int = 0

    def _maybe_refuse(self, what: str) -> None:
        error = self.refuse(what)
        if error is not None:
            raise error

    async def capture(self) -> Frame:
        await trio.sleep(0.01)
        self._maybe_refuse("capture")
        self.captures += 1
        pixels = np.empty((1280, 720, 3), np.uint8)
        pixels[:] = COLORS[self.screen][::-1]
        now = trio.current_time()
        return Frame(pixels, self.captures, now, now, Geometry(720, 1280), 0)

    async def act(self, action: Action) -> None:
        await trio.sleep(0.01)
        line = f"input text {action.text}" if isinstance(action, Text) else type(action).__name__
        self._maybe_refuse(line)
        self.done.append(line)
        if isinstance(action, Tap):
            self.screen = self.after_tap

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        await trio.sleep(0.01)
        self._maybe_refuse(command)
        if command.startswith("pm path"):
            return ShellResult(b"package:/data/app/x\n" if self.installed else b"", b"", 0 if self.installed else 1)
        self.done.append(command)
        return ShellResult(b"Success\n" if command.startswith("pm ") else b"", b"", 0)

    async def install(self, apks: Sequence[Path]) -> None:
        self.done.append(f"install {' '.join(apk.name for apk in apks)}")
        self.installed = True

    def statistics(self) -> Any:
        raise NotImplementedError


def keeper(
    setup: SetupConfig | None = None, teardown: TeardownConfig | None = None, apks: tuple[Path, ...] = (), **app: Any
) -> AppKeeper:
    rules = parse_rule_file(GATE_RULES.encode(), "gate.rules.toml")
    accounts = (Account("main", "ann", Secret("ann@example.test"), Secret(PASSWORD)),)
    config = AppConfig("play", "dev.corral.gate", activity=".Main", setup=setup, teardown=teardown, **app)
    return AppKeeper(
        config,
        AppAssets(rules, compile_probes(rules.probes, {}), ModelProfile(), apks),
        AccountPools(accounts),
        Secrets(accounts),
        every_seconds=0.5,
        tell=lambda *_, **__: None,
    )


async def test_everything_is_done_in_order(autojump_clock: Any) -> None:
    setup = SetupConfig("main", install=("b.apk", "s.apk"), clear=True, grant=("a.B", "c.D"), flow=(TYPE, LOGIN))
    phone = PretendPhone()
    kept = keeper(setup, apks=(Path("b.apk"), Path("s.apk")))

    assert await kept.prepare(phone) is None

    assert phone.done == [
        "install b.apk s.apk",
        "pm clear dev.corral.gate",
        "pm grant dev.corral.gate a.B",
        "pm grant dev.corral.gate c.D",
        "am force-stop dev.corral.gate",
        "am start -n dev.corral.gate/.Main",
        f"input text {PASSWORD}",
        "Tap",
    ]
    assert kept.account is not None
    assert (kept.state, kept.paused) == ("", None)


@pytest.mark.parametrize(("reinstall", "installs"), [(Reinstall.MISSING, 0), (Reinstall.ALWAYS, 1)])
async def test_what_is_there_is_installed_again_only_if_asked(
    reinstall: Reinstall, installs: int, autojump_clock: Any
) -> None:
    phone = PretendPhone(installed=True)
    kept = keeper(SetupConfig(install=("b.apk",), reinstall=reinstall), apks=(Path("b.apk"),))

    await kept.prepare(phone)

    assert sum(line.startswith("install") for line in phone.done) == installs


async def test_without_a_setup_the_app_is_started_and_left_alone_afterwards(autojump_clock: Any) -> None:
    phone = PretendPhone()
    kept = keeper()

    await kept.prepare(phone)
    await kept.tear_down(phone, flow=True)

    assert phone.done == ["am force-stop dev.corral.gate", "am start -n dev.corral.gate/.Main"]


async def test_teardown_goes_on_after_what_fails_in_it(autojump_clock: Any) -> None:
    step = FlowStep("log out", do=FlowAction(key=KeyName.BACK), expect=(Condition("lobby"),), timeout_seconds=1.0)
    teardown = TeardownConfig((step,), stop=True, clear=True, uninstall=True)
    phone = PretendPhone(refuse=lambda what: DeviceError("no") if what.startswith("pm clear") else None)

    with capture_logs() as logs:
        await keeper(SetupConfig(), teardown).tear_down(phone, flow=True)

    assert phone.done[-2:] == ["am force-stop dev.corral.gate", "pm uninstall dev.corral.gate"]
    failures = [log["error"] for log in logs if log["event"] == "actors.teardown.failed"]
    assert failures == ["teardown step 'log out': not what was expected within 1 s: lobby hit (2 attempts)", "no"]


@pytest.mark.parametrize("error", [DeviceTimeout("gone"), RuntimeError("a bug")])
async def test_an_actor_that_falls_over_in_a_setup_keeps_no_account(error: Exception, autojump_clock: Any) -> None:
    def fall(what: str) -> DeviceError | None:
        if what == "capture":
            raise error
        return None

    kept = keeper(SetupConfig("main", flow=(LOGIN,)))

    with pytest.raises(type(error)):
        await kept.prepare(PretendPhone(refuse=fall))

    assert kept.account is None
    assert kept.pools.statistics()["main"].depth == 1


async def test_a_cancelled_setup_keeps_no_account(autojump_clock: Any) -> None:
    kept = keeper(SetupConfig("main", flow=(FlowStep("never", expect=(Condition("captcha"),)),)))

    with trio.move_on_after(3):
        await kept.prepare(PretendPhone())

    assert kept.pools.statistics()["main"].depth == 1


async def test_no_free_account_is_a_reason(autojump_clock: Any) -> None:
    kept = keeper(SetupConfig("main", account_wait_seconds=5))
    await kept.pools.lease("main", wait_seconds=1)

    assert await kept.prepare(PretendPhone()) == (
        "no account of pool 'main' was free within 5 s: give it more accounts"
    )


async def test_a_phone_without_pictures_is_lost(autojump_clock: Any) -> None:
    phone = PretendPhone(refuse=lambda what: CaptureFailed("empty") if what == "capture" else None)

    with pytest.raises(DeviceLost, match=f"{CAPTURE_RETRIES} captures in a row failed"):
        await keeper(SetupConfig(flow=(LOGIN,))).prepare(phone)


@pytest.mark.parametrize("kind", [DeviceError, DeviceTimeout, ActionRefused])
async def test_an_error_while_typing_does_not_quote_the_text(kind: type[DeviceError], autojump_clock: Any) -> None:
    def refuse(what: str) -> DeviceError | None:
        return kind(f"{what!r} exited with 1") if what.startswith("input text") else None

    kept = keeper(SetupConfig("main", flow=(attrs.evolve(TYPE, retries=0),)))
    raised: DeviceLost | None = None
    shown = ""

    with capture_logs() as logs:
        try:
            shown = str(await kept.prepare(PretendPhone(refuse=refuse)))
        except DeviceLost as error:
            raised, shown = error, f"{error} {error!r}"

    assert raised is None or (raised.__context__, raised.__cause__) == (None, None), "errors keep what they came from"
    assert "${account.password}" in shown
    assert PASSWORD not in f"{shown} {logs}"


async def test_restart_starts_the_app_again(autojump_clock: Any) -> None:
    step = attrs.evolve(LOGIN, on_error=OnError.RESTART, retries=0)
    phone = PretendPhone(after_tap="captcha")

    failed = await keeper(SetupConfig(flow=(step,))).prepare(phone)

    assert failed is not None
    assert "also after 2 restarts" in failed
    assert sum(line.startswith("am start") for line in phone.done) == 3


async def test_a_captcha_waits_for_a_person(autojump_clock: Any) -> None:
    phone = PretendPhone(after_tap="captcha")
    kept = keeper(SetupConfig(flow=(LOGIN,)), needs_human=(Condition("captcha"),))
    seen: list[str | None] = []

    async def help_later() -> None:
        await trio.sleep(100)
        seen.append(kept.paused)
        phone.screen = "lobby"
        await trio.sleep(100)
        seen.append(kept.paused)
        kept.resume()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(help_later)
        assert await kept.prepare(phone) is None

    assert seen == ["the probe captcha shows that a person is needed"] * 2
    assert kept.paused is None


async def test_a_captcha_that_goes_away_resumes_by_itself_if_asked(autojump_clock: Any) -> None:
    phone = PretendPhone(after_tap="captcha")
    kept = keeper(SetupConfig(flow=(LOGIN,)), needs_human=(Condition("captcha"),), resume=Resume.AUTO)

    async def solve() -> None:
        await trio.sleep(100)
        phone.screen = "lobby"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(solve)
        assert await kept.prepare(phone) is None


async def test_a_captcha_that_nobody_solves_fails_the_setup(autojump_clock: Any) -> None:
    kept = keeper(SetupConfig(flow=(LOGIN,)), needs_human=(Condition("captcha"),), needs_human_seconds=50.0)

    failed = await kept.prepare(PretendPhone(screen="captcha"))

    assert failed is not None
    assert "needs_human: nobody came within 50 s" in failed
