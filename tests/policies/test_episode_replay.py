"""Whatever happens to an episode: it keeps its promises, and replaying the recorded inputs gives the same outputs."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.results.record import decode_steps, encode_output, encode_step
from policies.criteria import Criteria
from policies.episode import EpisodePolicy
from policies.geometry import Region
from policies.human import HumanSettings, Resume
from policies.planner import PlanFailed, PlanFailureKind, PlanRequest
from policies.probes import Reading
from policies.reflex import Comparison, Condition, ReflexAction, Rule
from policies.step import ActResult, Command, EpisodeSettings, Limits, StepInput, StepOutput
from runtime.ids import EpisodeId
from tests.kit.percepts import cells, percept, reply

SETTINGS = EpisodeSettings(
    "win",
    rules=(
        Rule("drink", (Condition("health", Comparison.BELOW, 0.3),), ReflexAction(tap=Region(0, 0, 50, 50))),
        Rule("close", (Condition("popup"),), ReflexAction(tap_match="popup"), priority=5, voids_plan=False),
    ),
    limits=Limits(seconds=30.0, steps=60),
    criteria=Criteria(min_score=3),
    human=HumanSettings((Condition("captcha"),), Resume.AUTO, wait_seconds=20.0),
)
EPISODE = EpisodeId("run-phone-0")
REPLIES = st.sampled_from(
    [
        "T500,500",
        "T100,100;T900,900;W03",
        "S100,500,900,500;B",
        'T500,500;K"hi"',
        "X1",
        "X0",
        "no",
        "T2000,1",
        "T1,1;" * 5,
    ]
)


class Episodes(RuleBasedStateMachine):
    """A phone and a model that do anything at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = EpisodePolicy(SETTINGS, EPISODE)
        self.now = 5.0
        self.seq = self.epoch = self.number = 0
        self.screen = cells()
        self.request: PlanRequest | None = None
        self.command: Command | None = None
        self.pending: dict[str, Any] = {}
        self.lines: list[str] = []
        self.outputs: list[StepOutput] = []
        self.tokens: set[int] = set()
        self.ended = False
        self.held: str | None = None
        self.was_held = False

    @rule(after=st.floats(0.0, 1.5), frame=st.booleans(), draw=st.floats(0, 1, exclude_max=True))
    @precondition(lambda self: not self.ended)
    def step(self, after: float, frame: bool, draw: float) -> None:
        self.now += after
        readings = {
            "health": self.pending.pop("health", Reading(0.9, True)),
            "popup": self.pending.pop("popup", Reading(0.0, False)),
            "captcha": self.pending.pop("captcha", Reading(0.0, False)),
        }
        seen = percept(self.seq, self.now - 0.01, self.screen, epoch=self.epoch, readings=readings) if frame else None
        self.seq += frame
        results = self.pending.pop("results", ())
        given = StepInput(self.number, self.now, seen, tuple(results), draw=draw, held=self.held, **self.pending)
        self.pending = {}
        self.number += 1
        was_paused, active = self.policy.paused is not None, self.policy.tally.active_seconds
        output = self.policy.step(given)
        if was_paused or self.was_held:
            assert self.policy.tally.active_seconds == active, "a pause does not count"
        self.was_held = self.held is not None
        if self.was_held:
            assert output.command is None, "somebody else has the phone"
            assert output.request is None, "and plans are void"
            assert not self.policy.outlook.queue, "what was planned is void"
            assert self.policy.outlook.request is None
        self.lines.append(encode_step(given, output))
        self.outputs.append(output)
        self._check(output)

    def _check(self, output: StepOutput) -> None:
        if output.abort is not None:
            assert self.request is not None
            assert output.abort == self.request.request_id
            self.request = None
        if output.request is not None:
            assert self.request is None, "at most one request is out"
            self.request = output.request
        if output.command is not None:
            assert self.command is None, "there is one finger"
            assert output.command.token not in self.tokens
            self.tokens.add(output.command.token)
            self.command = output.command
        if self.policy.paused is not None:
            assert output.command is None, "nothing is done while a person is needed"
            assert output.request is None, "nothing is planned while a person is needed"
        self.ended = output.end is not None

    @rule(change=st.integers(0, 255), left=st.integers(0, 30), top=st.integers(0, 58))
    def paint(self, change: int, left: int, top: int) -> None:
        self.screen = self.screen.copy()
        self.screen[top : top + 6, left : left + 6] = change

    @rule(error=st.none() | st.just("refused"))
    @precondition(lambda self: self.command is not None and "results" not in self.pending)
    def command_done(self, error: str | None) -> None:
        assert self.command is not None
        self.pending["results"] = (ActResult(self.command.token, self.now, self.now + 0.01, error),)
        self.command = None
        self.now += 0.02

    @rule(text=REPLIES)
    @precondition(lambda self: self.request is not None and "lost" not in self.pending)
    def answer(self, text: str) -> None:
        assert self.request is not None
        self.pending["plan"] = reply(self.request, text)
        self.request = None

    @rule(kind=st.sampled_from(list(PlanFailureKind)))
    @precondition(lambda self: self.request is not None and "lost" not in self.pending)
    def fail(self, kind: PlanFailureKind) -> None:
        assert self.request is not None
        self.pending["plan"] = PlanFailed(self.request.request_id, kind, "broken")
        self.request = None

    @rule()
    def low_health(self) -> None:
        self.pending["health"] = Reading(0.1, False)

    @rule(x=st.floats(0, 0.99), y=st.floats(0, 0.99))
    def popup(self, x: float, y: float) -> None:
        self.pending["popup"] = Reading(0.95, True, (x, y))

    @rule()
    def captcha(self) -> None:
        self.pending["captcha"] = Reading(1.0, True)

    @rule()
    def resume(self) -> None:
        self.pending["resumed"] = True

    @rule()
    @precondition(lambda self: "plan" not in self.pending)
    def lose_phone(self) -> None:
        self.pending["lost"] = True
        self.pending.pop("results", None)
        self.command = None

    @rule()
    @precondition(lambda self: self.held is None)
    def hold(self) -> None:
        self.held = "ann"
        self.command = None  # the shell stops it, and it has no result
        self.pending.pop("results", None)

    @rule(answered=st.booleans())
    @precondition(lambda self: self.held is not None)
    def hand_back(self, answered: bool) -> None:
        self.held = None
        if answered:
            self.pending["resumed"] = True

    @rule()
    def turn(self) -> None:
        self.epoch += 1

    @rule(score=st.integers(0, 5))
    def score(self, score: int) -> None:
        self.pending["score"] = float(score)

    @invariant()
    def tallies_add_up(self) -> None:
        tally = self.policy.tally
        assert 0 <= tally.stall_fraction <= 1
        assert 0 <= tally.stale_share <= 1
        assert tally.plans_completed + tally.plans_failed + tally.plans_aborted <= tally.plans_requested

    def teardown(self) -> None:
        again = EpisodePolicy(SETTINGS, EPISODE)
        for step in decode_steps(iter(self.lines)):
            assert encode_output(again.step(step.given)) == step.output
        assert again.tally == self.policy.tally
        assert again.paused == self.policy.paused


TestEpisodes = Episodes.TestCase
TestEpisodes.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
