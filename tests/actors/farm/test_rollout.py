import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.farm.engine_tally import End, EngineTally, Rates, rates_of
from actors.farm.rollout import (
    AddEngine,
    ChangeAdapter,
    Holdback,
    RemoveEngine,
    ReplaceEngine,
    RolloutConfig,
    Verdict,
    as_before,
    judge,
    shown,
    steps_for,
)
from inference.config import EngineConfig, TenantConfig
from inference.errors import EngineLost, EngineNotReady, EngineTooSlow, Overloaded
from inference.messages import Completion, Prompt, Usage
from runtime.ids import EngineId, TenantId

CONFIG = RolloutConfig(canary_requests=100, canary_minutes=5.0)
BEFORE = Rates(200, 4, 0.010, 0.1)
A, B, C = (
    EngineConfig(EngineId(name), url=f"http://127.0.0.1:{port}") for name, port in zip("abc", (1, 2, 3), strict=True)
)


@pytest.mark.parametrize(
    ("now", "seconds", "crashed", "verdict", "why"),
    [
        (Rates(), 1.0, None, Verdict.WAIT, "0 of 100"),
        (Rates(99, 2, 0.010), 299.0, None, Verdict.WAIT, "99 of 100"),
        (Rates(100, 2, 0.010), 10.0, None, Verdict.GOOD, "100 requests"),
        (Rates(3, 0), 300.0, None, Verdict.GOOD, "3 requests in 5 min"),
        (Rates(), 300.0, None, Verdict.GOOD, "0 requests"),
        (Rates(2, 2), 300.0, None, Verdict.BAD, "all of its 2 requests failed"),
        (Rates(4, 3), 1.0, None, Verdict.WAIT, "3 failed"),
        (Rates(5, 4), 1.0, None, Verdict.BAD, "4 of 5 requests failed, 4 of 200 before"),
        (Rates(100, 7, 0.010), 10.0, None, Verdict.GOOD, "7 failed"),
        (Rates(100, 8, 0.010), 10.0, None, Verdict.BAD, "8 of 100"),
        (Rates(19, 0, 0.100), 10.0, None, Verdict.WAIT, ""),
        (Rates(20, 0, 0.0151), 10.0, None, Verdict.BAD, "15.1 ms an output token, 10.0 before"),
        (Rates(20, 0, 0.0149), 10.0, None, Verdict.WAIT, ""),
        (Rates(100, 0, 0.010), 10.0, "exit code 137", Verdict.BAD, "ended by itself: exit code 137"),
    ],
)
def test_what_is_thought_of_a_canary(
    now: Rates, seconds: float, crashed: str | None, verdict: Verdict, why: str
) -> None:
    found = judge(CONFIG, before=BEFORE, now=now, seconds=seconds, crashed=crashed)
    assert found.verdict is verdict
    assert why in found.why


def test_an_engine_that_failed_before_may_fail_as_much_again() -> None:
    before = Rates(100, 50, 0.01)
    found = judge(CONFIG, before=before, now=Rates(100, 52, 0.01), seconds=1.0, crashed=None)
    assert found.verdict is Verdict.GOOD


def test_new_engines_first_and_old_ones_last() -> None:
    changed = attrs.evolve(B, model="other")
    tenants, wanted = {"x": TenantConfig(adapter="one")}, {"x": TenantConfig(adapter="two", weight=2.0)}
    steps = steps_for((A, B), (changed, C), tenants, wanted)
    assert steps == (
        AddEngine(C),
        ReplaceEngine(B, changed),
        ChangeAdapter(TenantId("x"), tenants["x"], wanted["x"]),
        RemoveEngine(A),
    )
    assert [shown(step) for step in steps] == ["engine c", "engine b", "the adapter of tenant x", "engine a"]


def test_what_is_as_it_shall_be_needs_nothing() -> None:
    assert steps_for((A, B), (B, A), {}, {"x": TenantConfig(weight=3.0)}) == ()


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_the_steps_lead_to_what_is_wanted(have: set[str], shall: set[str], changed: set[str]) -> None:
    def made(name: str, *, new: bool) -> EngineConfig:
        model = "new" if new and name in changed else "old"
        return EngineConfig(EngineId(name), url="http://127.0.0.1:1", model=model)

    now = {name: made(name, new=False) for name in sorted(have)}
    goal = {name: made(name, new=True) for name in sorted(shall)}
    least = min(len(now), len(goal))
    for step in steps_for(tuple(now.values()), tuple(goal.values()), {}, {}):
        match step:
            case AddEngine(new=one) | ReplaceEngine(new=one):
                now[one.id] = one
            case RemoveEngine(old=one):
                del now[one.id]
        assert len(now) >= least
    assert now == goal


_MODELS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["one", "two"]))
_ADAPTERS = st.dictionaries(st.sampled_from("uvw"), st.sampled_from([None, "one", "two"]))


@given(_MODELS, _MODELS, _ADAPTERS, _ADAPTERS, st.integers(0, 12))
def test_a_start_is_where_the_change_ended(
    had: dict[str, str], want: dict[str, str], adapted: dict[str, str | None], adapt: dict[str, str | None], done: int
) -> None:
    old, new = (
        [EngineConfig(EngineId(name), url="http://127.0.0.1:1", model=model) for name, model in one.items()]
        for one in (had, want)
    )
    before, after = ({name: TenantConfig(adapter=adapter) for name, adapter in one.items()} for one in (adapted, adapt))
    steps = steps_for(old, new, before, after)
    held = [Holdback(step, refused=True) for step in steps[done:]]

    engines, tenants, kept = as_before(new, after, held)

    # what is new needs no trial: it is started with the others, also where the change had not come to it
    left = [step for step in steps[done:] if not isinstance(step, AddEngine)]
    assert [one.step for one in kept] == left
    assert sorted(steps_for(engines, new, tenants, after), key=shown) == sorted(left, key=shown)


PROMPT = Prompt("r", TenantId("t"), "k", (), max_tokens=9)
DONE = Completion("x", "stop", Usage(100, 40, 11), EngineId("a"), "m", "born", 0.0, 0.2, 0.1)


def test_a_tally_counts_by_engine_and_by_tenant() -> None:
    tally = EngineTally()
    tally.observe(PROMPT, DONE)
    tally.observe(PROMPT, attrs.evolve(DONE, engine=EngineId("b"), decode_seconds=0.3))
    tally.observe(PROMPT, EngineLost("x", engine="a"))
    tally.observe(PROMPT, EngineTooSlow("x", engine="a"))
    assert attrs.astuple(tally.engine("a")) == pytest.approx((3, 2, 0.01, 0.2))
    assert tally.engine("b").requests == 1
    assert tally.tenant("t").requests == 4
    assert tally.tenant("t").failure_share == 0.5
    tokens = tally.tokens_of("a")
    assert (tokens.input, tokens.output, tokens.cached_share) == (100, 11, 0.4)
    assert tally.tokens_of("a", "t") == tokens
    assert tally.tokens_of("a", "other").cached_share is None


@pytest.mark.parametrize(
    "error",
    [Overloaded("full", engine="a"), EngineNotReady("none"), EngineNotReady("starts", engine="a"), EngineLost("x")],
)
def test_what_no_engine_took_says_nothing_of_one(error: Exception) -> None:
    tally = EngineTally()
    tally.observe(PROMPT, error)  # type: ignore[arg-type]
    assert tally.engine("a") == Rates()
    assert tally.tenant("t") == Rates()


def test_an_engine_that_is_another_one_now_begins_anew() -> None:
    tally = EngineTally()
    tally.observe(PROMPT, DONE)
    assert tally.forget_engine("a").requests == 1
    assert tally.engine("a") == Rates()
    assert tally.tokens_of("a").input == 100
    assert tally.forget_tenant("t").requests == 1


def test_an_answer_of_one_token_has_no_time_per_token() -> None:
    assert rates_of([End(True, None, 0.5)]) == Rates(1, 0, None, 0.5)
