"""A captcha in the middle of an episode: the clock stops, nothing is done, and it goes on where a person says so."""

from collections.abc import Callable

import pytest

from policies.baseline import RandomPolicy
from policies.criteria import Outcome
from policies.episode import EpisodePolicy
from policies.geometry import Region
from policies.human import HumanSettings, Resume
from policies.probes import Reading
from policies.reflex import Condition, ReflexAction, Rule
from policies.step import EpisodeSettings, Limits, StepInput, StepOutput
from runtime.ids import EpisodeId
from tests.kit.percepts import percept

SETTINGS = EpisodeSettings(
    "win",
    rules=(Rule("poke", (Condition("button"),), ReflexAction(tap=Region(0, 0, 50, 50)), cooldown_seconds=0.0),),
    planner=False,
    limits=Limits(seconds=10.0, steps=100),
    human=HumanSettings((Condition("captcha"),), Resume.MANUAL, wait_seconds=60.0),
)


class Play:
    """Steps of one second each, with a button to poke."""

    def __init__(self, make: Callable[[EpisodeSettings, EpisodeId], EpisodePolicy | RandomPolicy]) -> None:
        self.policy = make(SETTINGS, EpisodeId("run-phone-0"))
        self.now = 0.0
        self.number = 0

    def see(
        self, *, captcha: bool = False, resumed: bool = False, after: float = 1.0, stop: str | None = None
    ) -> StepOutput:
        self.now += after
        self.number += 1
        readings = {"captcha": Reading(float(captcha), captcha), "button": Reading(1.0, True)}
        seen = percept(self.number, self.now - 0.01, readings=readings)
        return self.policy.step(StepInput(self.number, self.now, seen, resumed=resumed, stop=stop, lost=True))


@pytest.fixture(params=[EpisodePolicy, RandomPolicy])
def play(request: pytest.FixtureRequest) -> Play:
    return Play(request.param)


def test_a_pause_counts_for_no_limit_and_does_nothing(play: Play) -> None:
    assert play.see().command is not None
    play.see()

    outputs = [play.see(captcha=True) for _ in range(30)]

    assert all(output.command is None and output.end is None for output in outputs)
    assert play.policy.paused is not None
    assert (play.policy.tally.steps, play.policy.tally.pauses) == (2, 1)
    assert play.policy.tally.active_seconds == pytest.approx(2.0)
    assert play.policy.tally.paused_seconds == pytest.approx(29.0)


def test_it_goes_on_where_it_was_and_still_ends_at_its_limit(play: Play) -> None:
    play.see()
    for _ in range(30):
        play.see(captcha=True)

    assert play.see(resumed=True).command is not None
    assert play.policy.paused is None
    ends = [play.see().end for _ in range(10)]

    assert ends[:6] == [None] * 6, "ten seconds of its own, less those before the pause"
    assert any(end is not None for end in ends)


def test_nobody_comes_and_the_episode_fails_with_the_reason(play: Play) -> None:
    play.see(captcha=True)
    assert play.policy.due_at == 61.0

    output = play.see(captcha=True, after=60.0)

    assert output.end is not None
    assert output.end.outcome is Outcome.FAILED
    assert output.end.reason.startswith("needs_human: nobody came within 60 s; the probe captcha")


def test_a_paused_episode_can_be_stopped(play: Play) -> None:
    play.see(captcha=True)

    output = play.see(captcha=True, stop="the run was stopped")

    assert output.end is not None
    assert output.end.outcome is Outcome.CANCELLED
