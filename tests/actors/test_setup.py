"""Setup and teardown on a phone that only pretends: what is done in which order, and what is let go of."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from actors.devices.base import ActionRefused, CaptureFailed, DeviceError, DeviceLost, DeviceTimeout
from actors.setup import CAPTURE_RETRIES, AppKeeper
from actors.setup_config import Reinstall, SetupConfig, TeardownConfig
from policies.action import KeyName
from policies.flow import FlowAction, FlowStep, OnError
from policies.human import Resume
from policies.reflex import Condition
from tests.kit.pretend_phone import LOGIN, PASSWORD, TYPE, PretendPhone, keeper


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


async def test_an_app_that_is_restarted_in_an_episode_goes_its_way_through_the_login_again(autojump_clock: Any) -> None:
    phone = PretendPhone()
    kept = keeper(SetupConfig("main", install=("b.apk",), clear=True, flow=(TYPE, LOGIN)), apks=(Path("b.apk"),))
    await kept.prepare(phone)
    account, phone.done, phone.screen = kept.account, [], "login"

    await kept.restart(phone, kept.app)

    assert phone.done == [
        "am force-stop dev.corral.gate",
        "am start -n dev.corral.gate/.Main",
        f"input text {PASSWORD}",
        "Tap",
    ], "nothing is installed or forgotten again"
    assert phone.screen == "lobby"
    assert kept.account is account is not None
    assert (kept.state, kept.paused) == ("", None)


async def test_a_restart_that_does_not_get_through_its_login_is_an_error_of_the_phone(autojump_clock: Any) -> None:
    phone = PretendPhone(after_tap="captcha")
    kept = keeper(SetupConfig("main", flow=(attrs.evolve(LOGIN, retries=0),)))
    await kept._lease("main", 1.0)

    with pytest.raises(DeviceError, match="the app was restarted, but restart step 'log in': not what was expected"):
        await kept.restart(phone, kept.app)

    assert kept.account is not None, "the episode goes on with it"


def paused(kept: AppKeeper) -> bool:
    return kept.paused is not None


async def test_a_captcha_behind_a_restart_waits_for_a_person(autojump_clock: Any) -> None:
    phone = PretendPhone(after_tap="captcha")
    kept = keeper(SetupConfig(flow=(LOGIN,)), needs_human=(Condition("captcha"),))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.restart, phone, kept.app)
        while kept.paused is None:  # on an autojump clock
            await trio.sleep(0.5)
        state = kept.state
        phone.screen = "lobby"
        kept.resume()

    assert state == "restarting"
    assert kept.state == ""
    assert not paused(kept)
