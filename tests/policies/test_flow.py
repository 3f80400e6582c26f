"""Flows without a model: what they do on which screen, and what they never do."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.action import Key, KeyName, Tap
from policies.flow import (
    MAX_RESTARTS,
    FlowAct,
    FlowAction,
    FlowDecision,
    FlowDone,
    FlowFailed,
    FlowNeedsHuman,
    FlowPolicy,
    FlowRestart,
    FlowStep,
    FlowWait,
    OnError,
)
from policies.geometry import Region
from policies.human import HumanSettings, Resume
from policies.perception import Percept
from policies.probes import Reading
from policies.reflex import Comparison, Condition
from tests.kit.percepts import percept

PROBES = ("login", "lobby", "captcha")


def on(*shown: str, at: float) -> Percept:
    """A screen on which these probes hit."""
    readings = {name: Reading(float(name in shown), name in shown, (0.5, 0.25)) for name in PROBES}
    return percept(int(at * 100), at, readings=readings)


def saw(name: str) -> tuple[Condition, ...]:
    return (Condition(name),)


def login(**changes: Any) -> FlowStep:
    given: dict[str, Any] = {
        "name": "log in",
        "when": saw("login"),
        "do": FlowAction(tap_match="login"),
        "expect": saw("lobby"),
        "timeout_seconds": 5.0,
        "retries": 1,
    }
    return FlowStep(**(given | changes))


class Play:
    """A flow, and a clock; actions take 0.1 s."""

    def __init__(self, *steps: FlowStep, human: HumanSettings | None = None) -> None:
        self.policy = FlowPolicy(steps, human)
        self.now = 0.0

    def see(self, *shown: str, after: float = 1.0, error: str | None = None, resumed: bool = False) -> FlowDecision:
        self.now += after
        decision = self.policy.step(on(*shown, at=self.now), self.now, resumed=resumed)
        if isinstance(decision, FlowAct | FlowRestart):
            self.now += 0.1
            self.policy.acted(self.now, error)
        return decision


def test_recognise_act_expect_done() -> None:
    play = Play(login())

    assert play.see() == FlowWait()
    assert play.see("login") == FlowAct("log in", Tap(360, 320))
    assert play.see("login") == FlowWait()
    assert play.see("lobby") == FlowDone()
    assert play.see("login") == FlowDone()


def test_a_tap_that_was_swallowed_is_done_again_and_then_it_fails_with_the_reason() -> None:
    play = Play(login())

    decisions = [play.see("login") for _ in range(11)]

    assert [type(d) for d in decisions[:-1] if not isinstance(d, FlowWait)] == [FlowAct, FlowAct]
    assert decisions[-1] == FlowFailed("setup step 'log in': not what was expected within 5 s: lobby hit (2 attempts)")


def test_what_is_never_seen_fails_with_the_reason() -> None:
    play = Play(login(retries=0))
    play.see()

    assert play.see(after=5) == FlowFailed("setup step 'log in': nothing to act on within 5 s: login hit (1 attempts)")


def test_a_step_whose_expectation_is_there_already_does_nothing() -> None:
    assert Play(login()).see("lobby") == FlowDone()


def test_a_frame_from_before_the_action_proves_nothing() -> None:
    play = Play(login())
    play.see("login")

    assert play.policy.step(on("lobby", at=play.now - 0.05), play.now) == FlowWait()
    assert play.see("lobby") == FlowDone()


def test_texts_leave_as_templates_and_steps_without_expectation_are_done_when_they_acted() -> None:
    play = Play(
        login(name="user", do=FlowAction(text="${account.user}"), expect=()),
        FlowStep("enter", do=FlowAction(key=KeyName.ENTER)),
        FlowStep("tap", do=FlowAction(tap=Region(0, 0, 100, 100))),
        FlowStep("arrive", expect=saw("lobby")),
    )

    assert play.see("login") == FlowAct("user", text="${account.user}")
    assert play.see("login") == FlowAct("enter", Key(KeyName.ENTER))
    assert play.see("login") == FlowAct("tap", Tap(50, 50))
    assert play.see("login") == FlowWait()
    assert play.see("lobby") == FlowDone()


def test_an_action_that_the_phone_refuses_is_an_attempt() -> None:
    play = Play(login())
    play.see("login", error="off the screen")
    play.see("login", error="off the screen")
    play.see("login", error="off the screen")

    decision = play.see("login", error="off the screen")

    assert decision == FlowFailed("setup step 'log in': the action failed: off the screen (2 attempts)")


def test_skip_goes_on_with_the_next_step() -> None:
    play = Play(login(on_error=OnError.SKIP, retries=0), FlowStep("wait", expect=saw("lobby")))
    play.see()
    play.see(after=6)

    assert play.policy.present == "wait"
    assert play.see("lobby") == FlowDone()


def test_restart_begins_anew_and_not_for_ever() -> None:
    play = Play(FlowStep("first", when=saw("login")), login(on_error=OnError.RESTART, retries=0))

    restarts = 0
    decision: FlowDecision = FlowWait()
    while not isinstance(decision, FlowFailed):
        decision = play.see("login", after=2)
        restarts += isinstance(decision, FlowRestart)

    assert restarts == MAX_RESTARTS
    assert "also after 2 restarts of the app" in decision.reason


def test_a_captcha_stops_the_clock_and_a_person_starts_it() -> None:
    play = Play(login(retries=0), human=HumanSettings(saw("captcha")))

    assert isinstance(play.see("captcha"), FlowNeedsHuman)
    assert isinstance(play.see("captcha", after=100), FlowNeedsHuman)
    assert isinstance(play.see("login", after=100), FlowNeedsHuman), "manual: the screen alone does not resume"
    assert play.see("login", resumed=True) == FlowAct("log in", Tap(360, 320))
    assert play.see("lobby") == FlowDone()


def test_a_captcha_that_nobody_solves_fails_the_flow() -> None:
    play = Play(login(), human=HumanSettings(saw("captcha"), wait_seconds=60))
    play.see("captcha")

    decision = play.see("captcha", after=60)

    assert isinstance(decision, FlowFailed)
    assert "nobody came within 60 s" in decision.reason


def test_on_error_needs_human_tries_the_step_again_after_help() -> None:
    play = Play(login(retries=0, on_error=OnError.NEEDS_HUMAN), human=HumanSettings(resume=Resume.AUTO))
    play.see()

    assert isinstance(play.see(after=6), FlowNeedsHuman)
    assert isinstance(play.see("lobby"), FlowNeedsHuman)
    assert play.see("lobby") == FlowDone()


SHOWN = st.sets(st.sampled_from(PROBES))
CONDITIONS = st.lists(
    st.builds(Condition, st.sampled_from(PROBES[:2]), st.sampled_from([Comparison.HIT, Comparison.MISS])), max_size=2
).map(tuple)
DO = st.none() | st.sampled_from(
    [FlowAction(tap_match="login"), FlowAction(key=KeyName.BACK), FlowAction(text="${env.X}")]
)
STEPS = st.lists(
    st.builds(
        FlowStep,
        st.just("s"),
        CONDITIONS,
        DO,
        CONDITIONS,
        st.floats(0.5, 5),
        st.integers(0, 2),
        st.sampled_from(list(OnError)),
    ),
    max_size=4,
)
WORLD = st.lists(
    st.tuples(SHOWN | st.none(), st.floats(0, 3), st.booleans(), st.none() | st.just("refused")), max_size=60
)
HUMAN = st.sampled_from([HumanSettings(saw("captcha"), resume, 20.0) for resume in Resume])


def test_a_person_is_not_called_off_while_there_is_nothing_to_tap_on() -> None:
    """`when` holds as the button is missing: nothing is solved by that, and the call runs out."""
    missing = Condition("login", Comparison.MISS, 0.0)
    step = FlowStep("s", (missing,), FlowAction(tap_match="login"), (), 1.0, 0, OnError.NEEDS_HUMAN)
    policy = FlowPolicy([step], HumanSettings(saw("captcha"), Resume.AUTO, 20.0))
    now, decision = 0.0, None
    while not isinstance(decision, FlowFailed):
        now += 1.0
        decision = policy.step(on(at=now), now)
        assert now < 60.0
    assert "nobody" in decision.reason or "20" in decision.reason


def test_what_is_expected_is_there_and_there_is_nothing_to_tap_on() -> None:
    missing = Condition("login", Comparison.MISS, 0.0)
    step = FlowStep("s", (missing,), FlowAction(tap_match="login"), (missing,), 1.0, 0, OnError.NEEDS_HUMAN)
    assert isinstance(FlowPolicy([step], HumanSettings()).step(on(at=1.0), 1.0), FlowDone)


@settings(max_examples=150, deadline=None)
@given(STEPS, HUMAN, WORLD)
def test_whatever_is_shown_a_flow_keeps_its_promises_and_ends(
    steps: list[FlowStep], human: HumanSettings, world: list[tuple[set[str] | None, float, bool, str | None]]
) -> None:
    policy, again = FlowPolicy(steps, human), FlowPolicy(steps, human)
    by_index = dict(enumerate(steps))
    now, decision = 0.0, None
    forever = [(set[str](), 1.0, False, None)] * 400  # more than all attempts, restarts and waits for people take

    for shown, after, resumed, error in [*world, *forever]:
        now += after
        seen = None if shown is None else on(*shown, at=now)
        decision = policy.step(seen, now, resumed=resumed)
        assert again.step(seen, now, resumed=resumed) == decision, "equal calls, equal decisions"
        if isinstance(decision, FlowAct):
            step = by_index[policy._index]
            assert seen is not None
            assert all((c.probe in (shown or ())) == (c.reads is Comparison.HIT) for c in step.when)
            assert policy.paused is None, "nothing is done while a person is needed"
        if isinstance(decision, FlowAct | FlowRestart):
            now += 0.1
            policy.acted(now, error if isinstance(decision, FlowAct) else None)
            again.acted(now, error if isinstance(decision, FlowAct) else None)
        if isinstance(decision, FlowDone | FlowFailed):
            break
    assert isinstance(decision, FlowDone | FlowFailed)
