"""Rows say what the episode's own counts say, and nothing is counted twice."""

import random
from collections import Counter
from typing import Any

import attrs
import pytest

from actors.warehouse.rows import MAX_TEXT, EpisodeIds, EpisodeRows, Row, row_for
from actors.warehouse.spool import is_sound
from policies.effect import EffectSettings
from policies.episode import EpisodePolicy
from policies.geometry import Region
from policies.overlap import OverlapSettings
from policies.planner import PlanFailed, PlanFailureKind, PlanReply, PlanRequest
from policies.probes import Reading
from policies.reflex import Comparison, Condition, ReflexAction, Rule
from policies.staleness import StalenessSettings
from policies.step import ActResult, Command, EpisodeSettings, Limits, Note, StepInput, StepOutput
from runtime.ids import EpisodeId
from tests.kit.percepts import cells, percept, reply

IDS = EpisodeIds("run-P-0", "P", "game", "planned")
POTION = Rule(
    "drink",
    (Condition("health", Comparison.BELOW, 0.3),),
    ReflexAction(tap=Region(600, 1000, 80, 80)),
    cooldown_seconds=1.0,
)
STEPS = 400


class World:
    """A phone, an engine and a game that do anything at random; the rows of it all."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        settings = EpisodeSettings(
            "win",
            rules=(POTION,),
            overlap=OverlapSettings(act_seconds=0.4, margin_seconds=0.0),
            staleness=StalenessSettings(max_age_seconds=3.0),
            effect=EffectSettings(within_seconds=0.4, fail_after=1000),
            limits=Limits(seconds=1000.0),
        )
        self.policy = EpisodePolicy(settings, EpisodeId("run-P-0"))
        self.builder = EpisodeRows(IDS)
        self.rows: list[Row] = []
        self.screen, self.epoch, self.seq, self.now = cells(), 0, 0, 10.0
        self.request: PlanRequest | None = None
        self.command: Command | None = None
        self.lost = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def play(self) -> None:
        for number in range(STEPS):
            self.now += 0.1
            lost = self.chance(0.01)
            self.lost += lost
            plan, results = (None, ()) if lost else (self.answer(), self.result())
            if lost:
                self.request = self.command = None
            self.change()
            seen = None
            if self.chance(0.9):
                health = Reading(0.1 if self.chance(0.03) else 0.9, False)
                seen = percept(self.seq, self.now - 0.02, self.screen, epoch=self.epoch, readings={"health": health})
                self.seq += 1
            stop = "enough" if number == STEPS - 1 else None
            given = StepInput(number, self.now, seen, results, plan, draw=self.random.random(), lost=lost, stop=stop)
            output = self.policy.step(given)
            at_ms = int(self.now * 1000)
            self.rows += self.builder.step(given, output, at_ms=at_ms, decided_at=self.now + 0.001)
            if output.abort is not None:
                self.request = None
            self.request = output.request or self.request
            self.command = output.command or self.command
        self.rows += self.builder.end(self.policy.tally, at_ms=int(self.now * 1000), about={}, faults=())

    def answer(self) -> PlanReply | PlanFailed | None:
        if self.request is None or not self.chance(0.12):
            return None
        request, self.request = self.request, None
        if self.chance(0.1):
            return PlanFailed(request.request_id, self.random.choice(list(PlanFailureKind)), "no")
        if self.chance(0.05):
            return reply(request, "what?")
        taps = [f"T{self.random.randrange(0, 1050)},{self.random.randrange(0, 1000)}" for _ in range(5)]
        return reply(request, ";".join(taps[: self.random.randrange(3, 6)]))

    def result(self) -> tuple[ActResult, ...]:
        if self.command is None or not self.chance(0.8):
            return ()
        command, self.command = self.command, None
        if self.chance(0.6):
            self.screen = self.screen.copy()
            self.screen[:3] += 60
        error = "the phone refused it" if self.chance(0.05) else None
        return (ActResult(command.token, self.now - 0.05 - self.random.random() / 100, self.now - 0.04, error),)

    def change(self) -> None:
        if self.chance(0.02):
            self.epoch += 1
        if self.chance(0.03):
            self.screen = self.screen.copy()
            left, top = self.random.randrange(30), self.random.randrange(58)
            self.screen[top : top + 6, left : left + 6] += 90


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_actions_steps_and_plans_add_up_to_the_tally(seed: int) -> None:
    world = World(seed)
    world.play()
    tally = world.policy.tally
    actions = [row for row in world.rows if row["t"] == "actions"]
    outcomes = Counter(row["outcome"] for row in actions)
    plans = Counter(row["outcome"] for row in world.rows if row["t"] == "plans")
    kinds = Counter(row["kind"] for row in actions if row["outcome"] not in ("stale", "voided", "late", "off_screen"))

    assert outcomes["stale"] == tally.stale_age + tally.stale_target + tally.stale_geometry
    assert outcomes["voided"] == tally.voided
    assert (outcomes["late"], outcomes["off_screen"]) == (tally.late, tally.off_screen)
    assert (outcomes["no_effect"], outcomes["effective"]) == (tally.no_effect, tally.effects_seen)
    assert outcomes["failed"] == tally.act_errors
    assert (kinds["reflex"], kinds["retry"], kinds["recovery"]) == (tally.reflex, tally.retried, tally.recovered)
    assert kinds["planned"] == tally.planned
    assert plans.total() == tally.plans_requested
    assert (plans["completed"], plans["aborted"]) == (tally.plans_completed, tally.plans_aborted)
    assert plans["failed"] == tally.plans_failed
    assert sum(row["t"] == "steps" for row in world.rows) == tally.steps
    assert sum(row["t"] == "faults" for row in world.rows) == world.lost
    assert all(is_sound(row) for row in world.rows)


def test_the_worlds_are_rich_enough_to_tell() -> None:
    seen: Counter[str] = Counter()
    for seed in range(12):
        world = World(seed)
        world.play()
        seen.update(str(row.get("outcome")) for row in world.rows if row["t"] in ("actions", "plans"))

    wanted = {"stale", "voided", "off_screen", "effective", "no_effect", "failed", "executed", "completed"}
    assert all(seen[outcome] > 2 for outcome in wanted), seen
    assert seen["aborted"] > 2


def test_where_a_steps_time_went_is_told_in_parts() -> None:
    world = World(1)
    world.play()
    step = next(row for row in world.rows if row["t"] == "steps")

    assert step["capture_ms"] == pytest.approx(10)
    assert step["decide_ms"] == pytest.approx(1)
    assert step["latency_ms"] == pytest.approx(step["capture_ms"] + step["wait_ms"] + step["decide_ms"])


def test_a_plan_that_is_out_when_the_episode_ends_was_aborted() -> None:
    builder = EpisodeRows(IDS)
    policy = EpisodePolicy(EpisodeSettings("win"), EpisodeId("run-P-0"))
    given = StepInput(0, 1.0, percept(0, 0.9))
    output = policy.step(given)
    assert output.request is not None
    builder.step(given, output, at_ms=5, decided_at=1.0)

    rows = builder.end(policy.tally, at_ms=9, about={"outcome": "quarantined"}, faults=[])

    assert [(row["outcome"], row.get("failure")) for row in rows if row["t"] == "plans"] == [("aborted", "ended")]
    (episode,) = [row for row in rows if row["t"] == "episodes"]
    assert (episode["started_ms"], episode["at_ms"], episode["outcome"]) == (5, 9, "quarantined")


def test_each_late_action_is_a_row() -> None:
    output = StepOutput(notes=(Note("policies.plan.late", {"request_id": "r", "late": 2, "diverged": False}),))

    rows = EpisodeRows(IDS).step(StepInput(3, 1.0, None), output, at_ms=5, decided_at=1.0)

    assert [(row["outcome"], row["kind"], row["step"]) for row in rows] == [("late", "planned", 3)] * 2


def test_texts_of_phones_become_one_bounded_line_and_no_number_is_nan() -> None:
    row: dict[str, Any] = row_for("faults", 1, {"cause": "\x1b[31mbad\nthing\x00" + "x" * 5000, "score": float("nan")})

    assert row["cause"].startswith("[31mbad thing x")
    assert len(row["cause"]) <= MAX_TEXT
    assert "score" not in row


def test_ids_are_in_every_row() -> None:
    world = World(2)
    world.play()

    assert all(attrs.asdict(IDS).items() <= row.items() for row in world.rows)
