"""What a run answers at its door while an episode plays: looking on, taking over, handing back, standing still."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import cv2
import numpy as np
import pytest
import trio
import trio.testing

from actors.control_answers import answer_for
from actors.custody import IDLE_SECONDS, Custody
from actors.devices.base import ActionRefused, Device, ShellResult
from actors.fleet import Fleet
from actors.logcat import LogcatLine
from actors.phone import PhoneJob, run_phone
from actors.readings import LOG_KEPT
from actors.session import EpisodeSession
from policies.action import Tap
from policies.step import EpisodeEnd
from runtime.child import ChildContext
from runtime.ids import PhoneId
from runtime.secret import Secret
from tests.actors.test_session import Model, Phone, session_for
from tests.kit.pretend_phone import keeper

TAP = {"kind": "tap", "x": 0.5, "y": 0.5}


class Counted(Phone):
    """Starts any app, and has no statistics."""

    def statistics(self) -> Any:
        return None

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        return ShellResult(b"", b"", 0)


@attrs.define(eq=False)
class World:
    """As much of a fleet as the door knows, with one phone that plays."""

    phone: Counted
    model: Model
    session: EpisodeSession
    job: PhoneJob
    run_id: str = "run"
    connections: None = None
    zero_ms: float = 1_800_000_000_000.0
    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)

    class scenario:  # noqa: N801
        name = "test"

    @property
    def jobs(self) -> list[PhoneJob]:
        return [self.job]

    @property
    def recorder(self) -> "World":
        return self

    def event(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def hold(self, by: str | None) -> None:
        self.job.hold(by)

    def resume(self, phone: str | None) -> list[str]:
        return [phone or ""] if self.job.resume() else []

    async def ask(self, command: str, **request: Any) -> dict[str, Any]:
        return await answer_for(cast("Fleet", self), {"command": command, "phone": "P", **request})


@asynccontextmanager
async def open_world(*, seconds: float = 1e6, model: Model | None = None) -> AsyncIterator[World]:
    phone, custody, model = Counted(), Custody(), model or Model()
    session = session_for(model, seconds=seconds, custody=custody)
    ended: list[EpisodeEnd] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Device]:
        yield cast("Device", phone)

    job = PhoneJob(
        PhoneId("P"), "p", session.spec.app, "game", opened, [session], keeper(), lambda _, end: ended.append(end),
        custody=custody,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_phone, job, ChildContext("P", 0))
        yield World(phone, model, session, job)
        nursery.cancel_scope.cancel()


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(1000):
        while not holds():
            await trio.sleep(0.01)


async def test_a_person_takes_over_acts_and_hands_back(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world(model=Model(latency=0.5)) as world:
        await until(lambda: len(world.phone.taps) > 3 and world.session.policy.outlook.request is not None)

        assert (await world.ask("take_over", by="ann"))["ok"] is True
        await trio.sleep(0.02)
        done, cancelled, captures = len(world.phone.taps), world.model.cancelled, world.phone.seq
        assert cancelled == 1, "the request is aborted on the engine too"
        await trio.sleep(60)
        assert len(world.phone.taps) == done, "the bot does nothing"
        assert world.phone.seq > captures + 100, "the screen is still shown"
        assert (await world.ask("status"))["phones"][0]["taken_over_by"] == "ann"
        assert "bob has not taken over" in (await world.ask("input", by="bob", input=TAP))["error"]
        assert "ann has taken over" in (await world.ask("take_over", by="bob"))["error"]

        assert (await world.ask("input", by="ann", input=TAP))["ok"] is True
        assert world.phone.taps[-1] == Tap(36, 64)
        active = world.session.policy.tally.active_seconds
        assert (await world.ask("phone"))["actions"][-1]["why"] == "by ann"
        assert "not bob" in (await world.ask("hand_back", by="bob"))["error"]
        assert (await world.ask("hand_back", by="ann"))["had"] is True
        await until(lambda: len(world.phone.taps) > done + 3)
        assert world.session.policy.tally.active_seconds < active + 10
        told = [event for event, _ in world.events]
        assert told == ["actors.phone.taken_over", "actors.phone.used", "actors.phone.handed_back"]


async def test_a_refusal_of_the_phone_is_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        await until(lambda: bool(world.phone.taps))
        await world.ask("take_over", by="ann")
        world.phone.fail_acts = [ActionRefused("off the screen", phone="P")]

        answer = await world.ask("input", by="ann", input=TAP)

        assert answer == {"ok": False, "error": "P: off the screen"}
        assert (await world.ask("phone"))["actions"][-1]["outcome"] == "failed"


async def test_who_goes_away_does_not_keep_the_phone(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        await until(lambda: bool(world.phone.taps))
        await world.ask("take_over", by="ann")
        done = len(world.phone.taps)

        await trio.sleep(IDLE_SECONDS + 3)

        assert len(world.phone.taps) > done
        assert "not taken over" in (await world.ask("input", by="ann", input=TAP))["error"]


async def test_a_held_run_stands_still_until_it_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        await until(lambda: bool(world.phone.taps))
        assert (await world.ask("hold", by="ann"))["phones"] == ["P"]
        await trio.sleep(0.02)
        done, active = len(world.phone.taps), world.session.policy.tally.active_seconds
        await trio.sleep(2 * IDLE_SECONDS)
        assert len(world.phone.taps) == done
        assert (await world.ask("status"))["phones"][0]["held_by"] == "ann"

        await world.ask("go_on")

        await until(lambda: len(world.phone.taps) > done)
        assert world.session.policy.tally.active_seconds < active + 10


async def test_a_hold_that_ends_before_the_policy_heard_of_it_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        for _ in range(20):
            await trio.sleep(0.097)
            world.job.hold("ann")
            world.job.hold(None)
        done = len(world.phone.taps)
        await trio.sleep(10)
        assert len(world.phone.taps) > done + 3


async def test_screens_are_made_once_for_each_picture_and_fit_the_side(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        await until(lambda: world.job.newest is not None)

        first = await world.ask("screens", phones={"P": None, "unknown": None}, side=64)
        (screen,) = first["screens"]
        picture = cv2.imdecode(np.frombuffer(base64.b64decode(screen["jpeg"]), np.uint8), cv2.IMREAD_COLOR)
        assert picture is not None
        assert max(picture.shape) == 64 == screen["height"]
        again = await world.ask("screens", phones={"P": screen["seq"]}, side=64)
        assert all(one["seq"] != screen["seq"] for one in again["screens"])
        assert first["more"] is False


async def test_the_detail_tells_actions_plan_times_and_a_redacted_log(autojump_clock: trio.testing.MockClock) -> None:
    secret = Secret("hunter2-hunter2")
    async with open_world() as world:
        world.session._readings.log.extend(  # no log is followed in this test
            LogcatLine(f"{number}.5", 1, "I", "game", f"token {secret.reveal()}") for number in range(2 * LOG_KEPT)
        )
        await trio.sleep(30)

        detail = await world.ask("phone")

        assert len(detail["actions"]) == len(detail["ledger"]) == 20
        assert {action["kind"] for action in detail["actions"]} == {"tap"}
        assert all(0 <= action["x"] <= 1 and 0 <= action["y"] <= 1 for action in detail["actions"])
        assert {action["outcome"] for action in detail["actions"]} & {"seen", "done"}
        assert 10.0 in {times["capture_ms"] for times in detail["ledger"]}
        assert detail["plan"] is None or set(detail["plan"]) == {"request", "asked_ms_ago", "thinking", "actions"}
        assert len(detail["log"]) == LOG_KEPT
        assert "hunter2" not in str(detail)
        assert detail["needs_human"] is None
        later = await world.ask("phone")
        assert [later[name] for name in ("actions", "ledger")] == [detail[name] for name in ("actions", "ledger")]


@pytest.mark.parametrize(
    "request_",
    [
        {"command": None}, {"command": ["x"]}, {"command": "reboot"}, {"command": "phone", "phone": 1},
        {"command": "phone", "phone": "Q"}, {"command": "take_over"}, {"command": "take_over", "by": ""},
        {"command": "take_over", "by": "x" * 201}, {"command": "screens"}, {"command": "hold"},
        {"command": "screens", "phones": {"P": "1"}, "side": 64}, {"command": "screens", "phones": {}, "side": 10**9},
        {"command": "screens", "phones": {}, "side": True}, {"command": "input", "by": "ann", "input": TAP},
    ],
)  # fmt: skip
async def test_a_wrong_request_is_answered(request_: dict[str, Any], autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        await until(lambda: world.job.newest is not None)

        answer = await world.ask(**{"command": "", **request_})

        assert answer["ok"] is False
        assert answer["error"]
