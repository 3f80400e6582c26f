"""A phone's actor: what it lets go of, whoever ends its episodes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest
import trio

from actors.devices.base import Device, DeviceError, DeviceLost, DeviceTimeout
from actors.phone import PhoneJob, run_phone
from actors.session import EpisodeSession
from actors.setup import AppKeeper
from actors.setup_config import SetupConfig
from policies.criteria import Outcome
from policies.flow import FlowStep
from policies.reflex import Condition
from policies.step import EpisodeEnd
from runtime.child import ChildContext, Expected
from runtime.ids import EpisodeId, PhoneId
from tests.kit.pretend_phone import LOGIN, PretendPhone, keeper


@attrs.define(eq=False)
class Played:
    """Stands for an `EpisodeSession` that ends as it is told."""

    ends: list[EpisodeEnd | DeviceLost | Exception]
    end: EpisodeEnd | None = None
    stopped: str | None = None

    class spec:  # noqa: N801
        episode = EpisodeId("run-P0-0")
        seed = 1

    class policy:  # noqa: N801
        score = None
        paused = None

    class statistics:  # noqa: N801
        black_cause: str | None = None

    async def play(self, device: Device) -> EpisodeEnd:
        await trio.sleep(1)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def stop(self, reason: str) -> None:
        self.stopped = reason


WON = EpisodeEnd(Outcome.SUCCEEDED, "won")


def job_for(phone: PretendPhone, kept: AppKeeper, *sessions: Played) -> tuple[PhoneJob, list[EpisodeEnd]]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Device]:
        yield phone

    ends: list[EpisodeEnd] = []
    job = PhoneJob(
        phone=PhoneId("P0"),
        address="here:1",
        app=kept.app,
        app_name="gate",
        open_device=opened,
        sessions=cast(list[EpisodeSession], list(sessions)),
        keeper=kept,
        on_end=lambda _, end: ends.append(end),
    )
    return job, ends


def free(kept: AppKeeper) -> int:
    return kept.pools.statistics()["main"].depth


async def test_each_episode_is_set_up_played_and_put_away(autojump_clock: Any) -> None:
    phone, kept = PretendPhone(), keeper(SetupConfig("main"))
    job, ends = job_for(phone, kept, Played([WON]), Played([WON]))

    await run_phone(job, ChildContext("phone", 0))

    assert ends == [WON, WON]
    start, stop = "am start -n dev.corral.gate/.Main", "am force-stop dev.corral.gate"
    assert phone.done == [stop, start, stop, stop, start, stop]
    assert free(kept) == 1


async def test_a_lost_phone_keeps_its_account_until_the_episode_is_over(autojump_clock: Any) -> None:
    kept = keeper(SetupConfig("main"))
    session = Played([DeviceTimeout("gone"), WON])
    job, ends = job_for(PretendPhone(), kept, session)

    with pytest.raises(DeviceLost):
        await run_phone(job, ChildContext("phone", 0))
    assert (free(kept), job.state) == (0, "lost")
    await run_phone(job, ChildContext("phone", 1))

    assert ends == [WON]
    assert free(kept) == 1


async def test_a_crashed_actor_that_is_given_up_frees_its_account(autojump_clock: Any) -> None:
    kept = keeper(SetupConfig("main"))
    job, ends = job_for(PretendPhone(), kept, Played([RuntimeError("a bug")]))
    with pytest.raises(ExceptionGroup):
        await run_phone(job, ChildContext("phone", 0))

    job.give_up(Outcome.QUARANTINED, "kept failing")

    assert [end.outcome for end in ends] == [Outcome.QUARANTINED]
    assert free(kept) == 1


async def test_a_phone_lost_while_it_is_put_away_keeps_the_outcome(autojump_clock: Any) -> None:
    phone = PretendPhone()
    kept = keeper(SetupConfig("main", start=False))
    job, ends = job_for(phone, kept, Played([WON]))
    phone.refuse = lambda what: DeviceTimeout("gone") if what.startswith("am force-stop") else None

    with pytest.raises(Expected):
        await run_phone(job, ChildContext("phone", 0))

    assert ends == [WON]
    assert free(kept) == 1


async def test_a_setup_that_fails_ends_its_episode_and_the_next_one_is_tried(autojump_clock: Any) -> None:
    phone, kept = PretendPhone(after_tap="captcha"), keeper(SetupConfig("main", flow=(LOGIN,)))
    job, ends = job_for(phone, kept, Played([]), Played([]))
    refuse_once = [DeviceError("no such activity")]
    phone.refuse = lambda what: refuse_once.pop() if what.startswith("am start") and refuse_once else None

    await run_phone(job, ChildContext("phone", 0))

    assert [end.outcome for end in ends] == [Outcome.FAILED, Outcome.FAILED]
    assert ends[0].reason == "the app could not be started: no such activity"
    assert ends[1].reason.startswith("setup step 'log in': nothing to act on within 5 s")
    assert free(kept) == 1


async def test_a_drain_ends_a_setup_that_waits(autojump_clock: Any) -> None:
    kept = keeper(SetupConfig("main", flow=(FlowStep("never", expect=(Condition("captcha"),), timeout_seconds=999),)))
    job, ends = job_for(PretendPhone(), kept, Played([]))
    context = ChildContext("phone", 0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_phone, job, context)
        await trio.sleep(5)
        context.draining.set()
        with trio.fail_after(1):
            while job.session is not None:
                await trio.sleep(0.01)

    assert ends == [EpisodeEnd(Outcome.CANCELLED, "the run was stopped")]
    assert free(kept) == 1


async def test_an_episode_that_failed_on_a_black_screen_says_why(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Played.statistics, "black_cause", "it is protected")
    lost = EpisodeEnd(Outcome.FAILED, "no score")
    job, ends = job_for(PretendPhone(), keeper(), Played([lost]), Played([WON]))
    await run_phone(job, ChildContext("phone", 0))

    assert [end.reason for end in ends] == ["no score; it was black for a while: it is protected", "won"]
