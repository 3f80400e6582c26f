"""A person takes a phone over: the bot yields at once, its clock stops, and afterwards it plans anew."""

from collections.abc import Callable

import pytest

from policies.baseline import RandomPolicy
from policies.criteria import Outcome
from policies.episode import EpisodePolicy
from policies.geometry import Region
from policies.human import HumanSettings, Resume
from policies.probes import Reading
from policies.reflex import Condition, ReflexAction, Rule
from policies.step import CommandKind, EpisodeSettings, Limits, StepInput, StepOutput
from runtime.ids import EpisodeId
from tests.kit.percepts import percept
from tests.policies.test_episode import Driver

ALWAYS = Rule("poke", (Condition("button"),), ReflexAction(tap=Region(0, 0, 50, 50)), cooldown_seconds=0.0)
BUTTON = {"button": Reading(1.0, True)}
SETTINGS = EpisodeSettings(
    "win",
    rules=(ALWAYS,),
    planner=False,
    limits=Limits(seconds=10.0, steps=100),
    human=HumanSettings((Condition("captcha"),), Resume.MANUAL, wait_seconds=60.0),
)


def test_the_chunk_in_flight_is_void_and_the_request_aborted_at_once() -> None:
    driver = Driver()
    driver.step()
    driver.step(text="T100,100;T200,200;T300,300;T400,400")
    assert driver.command is not None
    while driver.request is None:
        driver.step()
    out = driver.request

    output = driver.step(0.01, held="ann")

    assert output.abort == out.request_id
    assert (output.command, output.request) == (None, None)
    assert driver.policy.outlook.queue == ()
    assert [note.event for note in output.notes if "episode" in note.event] == ["policies.episode.held"]


def test_nothing_of_before_is_done_afterwards_and_a_new_plan_is_asked_for() -> None:
    driver = Driver()
    driver.step()
    driver.step(text="T100,100;T200,200;T300,300;T400,400")
    held = driver.run(5.0, lambda: driver.step(held="ann"))
    assert held == []

    stale = driver.step(0.01)  # its frame was asked for while the person still had the phone
    assert (stale.command, stale.request) == (None, None)
    fresh = driver.step()

    assert fresh.request is not None
    assert fresh.request.why == "released"
    assert driver.run(3.0) == [], "whatever is done comes from a plan of after the hold"
    driver.step(text="T500,500")
    assert [command.kind for command in driver.commands][-1] is CommandKind.PLANNED


def test_a_reply_that_comes_with_the_hold_is_counted_and_not_done() -> None:
    driver = Driver()
    driver.step()

    output = driver.step(text="T100,100", held="ann")

    assert output.command is None
    assert driver.policy.tally.plans_completed == 1
    assert driver.run(2.0, lambda: driver.step(held="ann")) == []
    assert driver.run(2.0) == []


def test_the_command_under_way_has_no_result_that_counts() -> None:
    driver = Driver()
    driver.step()
    driver.step(text="T100,100")
    token = driver.command
    assert token is not None

    driver.step(0.01, held="ann", done=False)
    driver.step(held="ann")  # its result comes now

    assert driver.policy.tally.effects_seen == driver.policy.tally.no_effect == 0


def test_reflexes_do_not_fire_while_it_is_held() -> None:
    driver = Driver(rules=(ALWAYS,))

    assert driver.step(held="ann", readings=BUTTON).command is None
    driver.step(readings=BUTTON)
    assert driver.step(readings=BUTTON).command is not None


class Play:
    """Steps of one second each, with a button to poke."""

    def __init__(self, make: Callable[[EpisodeSettings, EpisodeId], EpisodePolicy | RandomPolicy]) -> None:
        self.policy = make(SETTINGS, EpisodeId("run-phone-0"))
        self.now = 0.0
        self.number = 0

    def see(self, *, captcha: bool = False, after: float = 1.0, **given: object) -> StepOutput:
        self.now += after
        self.number += 1
        readings = {"captcha": Reading(float(captcha), captcha), **BUTTON}
        seen = percept(self.number, self.now - 0.01, readings=readings)
        return self.policy.step(StepInput(self.number, self.now, seen, **given))  # type: ignore[arg-type]


def is_paused(play: Play) -> bool:
    return play.policy.paused is not None


@pytest.fixture(params=[EpisodePolicy, RandomPolicy])
def play(request: pytest.FixtureRequest) -> Play:
    return Play(request.param)


def test_the_clock_stands_still_and_nothing_is_done(play: Play) -> None:
    play.see()

    outputs = [play.see(held="ann") for _ in range(30)]

    assert all(output.command is None and output.end is None for output in outputs)
    assert play.policy.paused is None, "nobody is needed: somebody is there"
    assert play.policy.due_at == float("inf")
    play.see()
    assert play.policy.tally.active_seconds == pytest.approx(1.0)
    assert play.policy.tally.paused_seconds == pytest.approx(30.0)
    assert play.see().command is not None


def test_a_hand_back_answers_a_pause_and_a_hold_that_just_ends_does_not(play: Play) -> None:
    play.see()
    play.see(captcha=True)
    for _ in range(100):  # longer than anybody is waited for: somebody is there
        assert play.see(captcha=True, held="ann").end is None
    play.see(captcha=True)
    assert is_paused(play)
    play.see(captcha=True, held="ann")

    play.see(captcha=False, resumed=True)

    assert not is_paused(play)
    assert play.see().command is not None


def test_a_hand_back_while_the_run_is_held_is_not_forgotten(play: Play) -> None:
    play.see()
    play.see(captcha=True)
    play.see(captcha=True, held="ann")

    assert play.see(captcha=True, held="run", resumed=True).command is None
    assert play.policy.paused is None
    play.see()
    assert play.see().command is not None


def test_a_held_episode_can_be_stopped(play: Play) -> None:
    play.see(held="ann")

    output = play.see(held="ann", stop="the run was stopped")

    assert output.end is not None
    assert (output.end.outcome, output.end.reason) == (Outcome.CANCELLED, "the run was stopped")
