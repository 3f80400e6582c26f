"""An episode's decisions: what is asked, joined, verified, executed and given up, on screens made of cells."""

import itertools
from collections.abc import Callable

import attrs
import pytest

from inference.profile import ModelProfile
from policies.action import Key, KeyName, Swipe, Tap, Text
from policies.criteria import Criteria, Outcome
from policies.effect import EffectSettings
from policies.episode import EpisodePolicy
from policies.geometry import Region
from policies.overlap import OverlapSettings
from policies.planner import PlanFailed, PlanFailureKind, PlanRequest
from policies.probes import Reading
from policies.reflex import Comparison, Condition, ReflexAction, Rule
from policies.staleness import StalenessRule, StalenessSettings
from policies.step import ActResult, Command, CommandKind, EpisodeSettings, Limits, StepInput, StepOutput
from runtime.ids import EpisodeId
from tests.kit.percepts import cells, percept, query_of, reply

POTION = Rule(
    "drink",
    (Condition("health", Comparison.BELOW, 0.3),),
    ReflexAction(tap=Region(600, 1000, 80, 80)),
    cooldown_seconds=5.0,
)


class Driver:
    """Feeds a policy: a clock, frames, results and replies."""

    def __init__(self, *, responsive: bool = True, **changes: object) -> None:
        self.responsive = responsive  # the screen's top strip changes with every command
        settings = EpisodeSettings(
            "win",
            overlap=OverlapSettings(act_seconds=0.2, margin_seconds=0.0),
            effect=EffectSettings(within_seconds=0.5),
            limits=Limits(seconds=100.0),
        )
        self.policy = EpisodePolicy(attrs.evolve(settings, **changes), EpisodeId("run-phone-0"))  # type: ignore[arg-type]
        self.now = 10.0
        self.number = 0
        self.seq = 0
        self.screen = cells()
        self.epoch = 0
        self.request: PlanRequest | None = None
        self.command: Command | None = None
        self.output = StepOutput()
        self.commands: list[Command] = []

    def step(
        self,
        after: float = 0.1,
        *,
        frame: bool = True,
        text: str | None = None,
        fail: PlanFailureKind | None = None,
        done: bool = True,
        error: str | None = None,
        **given: object,
    ) -> StepOutput:
        """One step `after` seconds later; by default with a new frame and with the last command done."""
        self.now += after
        results = []
        if self.command is not None and done:
            results.append(ActResult(self.command.token, self.now - 0.05, self.now - 0.04, error))
            self.command = None
        plan = None
        if text is not None or fail is not None:
            assert self.request is not None
            plan = (
                reply(self.request, text)
                if text is not None
                else PlanFailed(self.request.request_id, fail or PlanFailureKind.LATE, "no")
            )
            self.request = None
        readings = given.pop("readings", None)
        seen = percept(self.seq, self.now - 0.02, self.screen, epoch=self.epoch, readings=readings) if frame else None  # type: ignore[arg-type]
        self.seq += frame
        self.output = self.policy.step(
            StepInput(self.number, self.now, seen, tuple(results), plan, **given)  # type: ignore[arg-type]
        )
        self.number += 1
        if self.output.request is not None:
            assert self.request is None or self.output.abort == self.request.request_id, "two requests out"
            self.request = self.output.request
        elif self.output.abort is not None:
            self.request = None
        if self.output.command is not None:
            assert self.command is None, "two commands out"
            self.command = self.output.command
            self.commands.append(self.output.command)
            if self.responsive:
                self.screen = self.screen.copy()
                self.screen[:3] += 60  # wraps around: each command leaves another colour
        return self.output

    def run(self, seconds: float, step: Callable[[], StepOutput] | None = None) -> list[Command]:
        """Steps until the time has passed; the commands that were given meanwhile."""
        start, known = self.now, len(self.commands)
        while self.now - start < seconds:
            (step or self.step)()
        return self.commands[known:]


def test_the_first_frame_asks_for_a_plan_in_the_documents_order() -> None:
    driver = Driver()

    request = driver.step().request

    assert request is not None
    assert request.why == "empty"
    assert [turn.role for turn in request.turns] == ["system", "user"]
    assert "Goal: win" in query_of(request)
    assert "Already scheduled: none" in query_of(request)
    assert driver.step().request is None, "one is out already"


def test_a_reply_is_executed_in_order_at_the_pace_of_act_slots() -> None:
    driver = Driver()
    driver.step()

    driver.step(text="T500,500;S100,100,900,900;B")
    times = [driver.now]
    while len(driver.commands) < 3:
        if driver.step(0.05).command is not None:
            times.append(driver.now)

    assert [c.action for c in driver.commands] == [
        Tap(360, 640),
        Swipe(72, 128, 648, 1152, 0.2),
        Key(KeyName.BACK),
    ]
    assert all(b - a >= 0.2 - 1e-9 for a, b in itertools.pairwise(times))


def test_the_next_chunk_is_asked_for_while_the_present_one_executes_and_follows_it() -> None:
    driver = Driver()
    driver.step()
    driver.step(0.3, text="T100,100;T200,200;T300,300;T400,400;T500,500")

    while driver.request is None:
        driver.step(0.05)
    assert len(driver.commands) < 5, "asked before the queue ran dry"
    assert driver.request.why == "overlap"
    scheduled = query_of(driver.request).split("Already scheduled: ")[1].split("\n")[0]
    under_way = 0 if driver.command is None else 1
    assert scheduled == ";".join(f"T{n}00,{n}00" for n in range(len(driver.commands) + 1 - under_way, 6))

    driver.step(0.05, text="T900,900")
    driver.run(2.0)

    assert [c.action.x for c in driver.commands if isinstance(c.action, Tap)] == [72, 144, 216, 288, 360, 648]
    assert driver.policy.tally.late == 0


def test_without_overlap_it_thinks_only_when_nothing_is_left_to_do() -> None:
    driver = Driver(overlap=OverlapSettings(enabled=False, act_seconds=0.2))
    driver.step()
    driver.step(0.3, text="T100,100;T200,200")

    asked = [driver.step(0.05).request is not None for _ in range(8)]

    assert asked.index(True) >= 7, "two slots of 0.2 s pass first"


def test_stall_is_the_time_without_anything_to_execute_while_a_plan_is_awaited() -> None:
    driver = Driver(overlap=OverlapSettings(enabled=False, act_seconds=0.2))
    driver.step()
    for _ in range(20):
        driver.run(0.3, lambda: driver.step(0.05))
        driver.step(0.0, text="T100,100;T200,200")
        while driver.request is None:
            driver.step(0.05)

    expected = 0.3 / (0.3 + 0.4)
    assert driver.policy.tally.stall_fraction == pytest.approx(expected, abs=0.05)


def test_waiting_longer_than_the_goal_needs_counts_as_stall() -> None:
    driver = Driver(needed_wait_seconds=0.2)
    driver.step()
    before = driver.policy.tally.stall_seconds

    driver.step(0.0, text="W10")

    assert driver.policy.tally.stall_seconds - before == pytest.approx(0.8)


def test_an_action_whose_target_has_changed_is_not_done() -> None:
    driver = Driver()
    driver.step()
    driver.screen = cells(gone=(15, 28, 21, 36, 255))

    driver.step(text="T500,500;T100,100")
    driver.run(1.0)

    assert [c.action for c in driver.commands][:1] == [Tap(72, 128)]
    assert driver.policy.tally.stale_target == 1
    assert driver.request is not None, "a new plan is asked for"


def test_text_is_not_typed_when_the_tap_before_it_was_stale() -> None:
    driver = Driver()
    driver.step()
    driver.screen = cells(gone=(15, 28, 21, 36, 255))

    driver.step(text='T500,500;K"hello";T100,100')
    driver.run(1.0)

    assert not any(isinstance(c.action, Text) for c in driver.commands)
    assert driver.policy.tally.voided == 1


def test_an_old_plan_is_not_done_even_if_the_screen_looks_the_same() -> None:
    driver = Driver(staleness=StalenessSettings(max_age_seconds=2.0))
    driver.step()

    driver.step(2.5, text="T500,500")

    assert driver.command is None
    assert driver.policy.tally.stale_age == 1


@pytest.mark.parametrize(("latency", "frames", "kept"), [(0.15, 1, True), (0.3, 1, True), (0.3, 4, False)])
def test_strict_age_is_the_documents_rule_of_two_frames_or_200_ms(latency: float, frames: int, kept: bool) -> None:
    driver = Driver(staleness=StalenessSettings(rule=StalenessRule.STRICT_AGE))
    driver.step()
    for _ in range(frames - 1):
        driver.step(latency / frames)

    driver.step(latency / frames, text="T500,500")

    assert (driver.command is not None) == kept
    assert driver.policy.tally.stale_age == (not kept)


def test_a_turned_screen_voids_what_was_planned_on_the_old_one() -> None:
    driver = Driver()
    driver.step()
    driver.epoch = 1

    driver.step(text="T500,500")

    assert driver.command is None
    assert driver.policy.tally.stale_geometry == 1


def test_nothing_planned_is_done_while_no_fresh_frame_comes() -> None:
    driver = Driver(staleness=StalenessSettings(max_age_seconds=60.0))
    driver.step()

    driver.step(1.5, frame=False, text="T500,500")
    assert driver.command is None
    driver.step(0.1)

    assert driver.commands[-1].action == Tap(360, 640)


def test_a_reflex_fires_at_once_and_voids_the_plan_and_the_request() -> None:
    driver = Driver(rules=(POTION,))
    driver.step(readings={"health": Reading(0.9, True)})
    driver.step(text="T100,100;T200,200;T300,300", readings={"health": Reading(0.9, True)})
    while driver.request is None:
        driver.step(0.05, readings={"health": Reading(0.9, True)})
    asked = driver.request.request_id

    output = driver.step(readings={"health": Reading(0.2, False)})

    assert output.command is not None
    assert output.command.kind is CommandKind.REFLEX
    assert output.command.action == Tap(640, 1040)
    assert output.abort == asked
    later = driver.run(3.0, lambda: driver.step(readings={"health": Reading(0.2, False)}))
    assert later == [], "the cooldown holds, and no action of the old plan is done"
    assert driver.request is not None


def test_a_reply_to_an_aborted_request_is_ignored() -> None:
    driver = Driver(rules=(POTION,))
    old = driver.step(readings={"health": Reading(0.9, True)}).request
    assert old is not None
    driver.step(readings={"health": Reading(0.1, False)})
    commands = len(driver.commands)

    given = StepInput(99, driver.now + 0.1, percept(99, driver.now), plan=reply(old, "T100,100"))
    driver.policy.step(given)

    assert len(driver.commands) == commands
    assert driver.policy.tally.plans_completed == 0


def test_an_action_off_the_screen_is_dropped_with_all_that_follow() -> None:
    driver = Driver(profile=ModelProfile(constrained=False))
    driver.step()

    driver.step(text="T100,100;T1200,100;T200,200")
    driver.run(2.0, lambda: driver.step(0.05))

    assert [c.action for c in driver.commands if c.kind is CommandKind.PLANNED] == [Tap(72, 128)]
    assert driver.policy.tally.off_screen == 2
    assert driver.request is not None
    assert "off the screen" in query_of(driver.request)


def test_the_recovery_ladder_climbs_from_retry_to_failure() -> None:
    """A frozen screen: nothing ever has an effect."""
    driver = Driver(responsive=False)
    driver.step()
    kinds: list[str] = []

    def step() -> StepOutput:
        is_due = driver.request is not None and driver.now - driver.request.asked_at > 0.8
        output = driver.step(0.1, text="T500,500" if is_due else None)
        if output.command is not None:
            kinds.append(output.command.kind.value if output.command.kind != "recovery" else output.command.why)
        return output

    end = None
    for _ in range(400):
        end = step().end
        if end is not None:
            break

    assert end is not None
    assert end.outcome is Outcome.FAILED
    assert "stuck" in end.reason
    assert kinds[0] == "planned"
    assert kinds.index("back") < kinds.index("restart_app")
    assert driver.policy.tally.retried >= 1
    retry = next(c for c in driver.commands if c.kind is CommandKind.RETRY)
    assert isinstance(retry.action, Tap)
    assert (retry.action.x, retry.action.y) != (360, 640)
    assert max(abs(retry.action.x - 360), abs(retry.action.y - 640)) < 15


def test_the_model_is_told_that_its_action_had_no_effect() -> None:
    driver = Driver(responsive=False, effect=EffectSettings(within_seconds=0.3, replan_after=1))
    driver.step()
    driver.step(text="T500,500")
    driver.run(0.5)
    if driver.request is not None:
        driver.step(text="T500,500")

    while driver.request is None or "had no effect" not in query_of(driver.request):
        driver.step()
        assert driver.number < 100

    assert driver.policy.tally.no_effect >= 1


def test_an_effect_at_the_target_is_seen() -> None:
    driver = Driver(responsive=False)
    driver.step()
    driver.step(text="T500,500")
    driver.screen = cells(pressed=(15, 28, 21, 36, 200))

    driver.run(1.0)

    assert driver.policy.tally.effects_seen == 1
    assert driver.policy.tally.no_effect == 0


@pytest.mark.parametrize("kind", [PlanFailureKind.ENGINE, PlanFailureKind.GARBLED])
def test_a_broken_engine_is_asked_again_but_not_at_the_pace_of_frames(kind: PlanFailureKind) -> None:
    driver = Driver()
    driver.step()

    driver.step(fail=kind)
    asked = sum(driver.step(0.1).request is not None for _ in range(8))
    assert asked == 0
    driver.step(0.3)

    assert driver.request is not None
    assert driver.policy.tally.plans_failed == 1


def test_words_without_an_action_are_a_failed_plan() -> None:
    driver = Driver()
    driver.step()

    output = driver.step(text="I am sorry, I cannot do that")

    assert driver.policy.tally.plans_failed == 1
    assert any(note.event == "policies.plan.failed" and note.fields["kind"] == "garbled" for note in output.notes)


def test_a_lost_phone_voids_the_plan_and_a_late_result_is_ignored() -> None:
    driver = Driver()
    driver.step()
    driver.step(text="T100,100;T200,200;T300,300")
    out = driver.command
    assert out is not None
    driver.command = None

    output = driver.step(lost=True)

    assert driver.policy.tally.voided == 2
    assert output.request is not None, "it plans anew on what it now sees"


def test_limits_end_the_episode_and_the_criteria_judge_it() -> None:
    driver = Driver(limits=Limits(seconds=1.0), criteria=Criteria(min_score=5.0))
    driver.step(score=3.0)

    end = driver.step(1.1).end

    assert end is not None
    assert (end.outcome, end.reason) == (Outcome.FAILED, "score 3 is below 5")


def test_a_reached_score_ends_the_episode_early() -> None:
    driver = Driver(limits=Limits(score=5.0), criteria=Criteria(min_score=5.0))
    driver.step()

    end = driver.step(score=5.0).end

    assert end is not None
    assert end.outcome is Outcome.SUCCEEDED


def test_the_models_word_alone_does_not_make_a_success() -> None:
    driver = Driver(criteria=Criteria(goal_reached=True))
    driver.step()

    assert driver.step(text="X1").end is None
    driver.step()
    assert driver.request is not None
    assert "not reached yet" in query_of(driver.request)
    end = driver.step(goal_reached=True).end

    assert end is not None
    assert end.outcome is Outcome.SUCCEEDED


def test_a_stop_cancels() -> None:
    driver = Driver()
    driver.step()

    output = driver.step(stop="the run was stopped")

    assert output.end is not None
    assert (output.end.outcome, output.end.reason) == (Outcome.CANCELLED, "the run was stopped")
    assert output.abort is not None


def test_history_is_told_as_text_and_only_grows() -> None:
    driver = Driver()
    driver.step()
    prefixes = []
    for n in range(4):
        driver.screen = cells(moving=(0, 0, 36, 10, 60 * n))
        driver.step(text=f"T{n + 1}00,900")
        driver.run(1.5)
        while driver.request is None:
            driver.step()
        part = driver.request.turns[-1].parts[0]
        prefixes.append(part.text)  # type: ignore[union-attr]

    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(prefixes))
    assert "1. T100,900 -> done" in prefixes[-1]


def test_what_the_newest_frame_cannot_show_yet_is_told_as_scheduled() -> None:
    driver = Driver()
    driver.step()
    driver.step(0.2, text="T100,100")
    assert driver.command is not None

    driver.step(0.15, frame=False)

    assert driver.request is not None
    assert query_of(driver.request).split("Already scheduled: ")[1].startswith("T100,100\n")


def test_nothing_is_asked_or_done_until_a_lost_phone_shows_itself_again() -> None:
    driver = Driver()
    driver.step()
    driver.step(text="T100,100;T200,200")

    output = driver.step(lost=True, frame=False)
    assert (output.request, output.command) == (None, None)
    output = driver.step(frame=False)
    assert (output.request, output.command) == (None, None)

    assert driver.step().request is not None
