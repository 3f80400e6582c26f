"""Caches: what was put in comes out for whom it was, and for nobody else, however many are mixed up."""

import datetime as dt

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.ids import TenantId
from sqlassist.cache import (
    CacheScope,
    ExactCache,
    ResultCache,
    SemanticCache,
    Signature,
    ngram_cosine,
    signature_of,
)
from sqlassist.decision import Decision
from sqlassist.language import folded
from sqlassist.result import Cell, ResultColumn, ResultSet, ValueType

SCOPE = CacheScope(TenantId("a"), ("viewer",), ("game",), ("c1",), ("l1",))
DAY = dt.date(2026, 6, 30)
SCOPES = st.builds(
    CacheScope,
    tenant=st.sampled_from([TenantId("a"), TenantId("b")]),
    roles=st.sampled_from([("viewer",), ("admin", "viewer")]),
    sources=st.sampled_from([("game",), ("game", "logs")]),
    catalog_versions=st.sampled_from([("c1",), ("c2",)]),
    layer_versions=st.sampled_from([("l1",), ("l2",)]),
    library_version=st.sampled_from(["1", "2"]),
)
QUESTIONS = st.sampled_from(
    ["Revenue in May?", "revenue in may", "revenue in June", "五月收入", "五月 收入？", "六月收入"]
)
DAYS = st.sampled_from([DAY, DAY + dt.timedelta(days=1)])
NOTHING = Signature((), frozenset(), ())


def result_of(rows: list[tuple[Cell, ...]]) -> ResultSet:
    return ResultSet((ResultColumn("x", ValueType.TEXT),), tuple(rows), is_truncated=False, seconds=0.1)


class DecisionMachine(RuleBasedStateMachine):
    """The exact and the semantic cache beside a plain dictionary that never forgets."""

    def __init__(self) -> None:
        super().__init__()
        self.exact = ExactCache(max_entries=4)
        self.semantic = SemanticCache(threshold=1.0, max_entries=4)
        self.model: dict[tuple[CacheScope, str, dt.date], Decision] = {}
        self.number = 0

    @rule(scope=SCOPES, text=QUESTIONS, day=DAYS)
    def put(self, scope: CacheScope, text: str, day: dt.date) -> None:
        self.number += 1
        decision = Decision(f"SELECT {self.number}", scope.tenant, "metric")
        self.model[scope, folded(text), day] = decision
        self.exact.put(scope, text, day, decision)
        self.semantic.put(scope, text, day, NOTHING, decision)
        assert self.exact.get(scope, text, day) == decision

    @rule(scope=SCOPES, text=QUESTIONS, day=DAYS)
    def get(self, scope: CacheScope, text: str, day: dt.date) -> None:
        expected = self.model.get((scope, folded(text), day))
        for found in (self.exact.get(scope, text, day), self.semantic.get(scope, text, day, NOTHING)):
            assert found is None or found == expected
            assert found is None or found.source == scope.tenant

    @invariant()
    def stays_small(self) -> None:
        assert len(self.exact._kept) <= 4
        assert len(self.semantic._kept) <= 4


class ResultMachine(RuleBasedStateMachine):
    """The result cache beside a dictionary with the time of each entry."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ResultCache(seconds=10, max_entries=3, max_bytes=4000)
        self.model: dict[tuple[CacheScope, str, str, str], tuple[float, ResultSet]] = {}
        self.now = 0.0

    @rule(seconds=st.floats(0, 12))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        scope=SCOPES,
        source=st.sampled_from(["game", "logs"]),
        sql=st.sampled_from(["SELECT 1", "SELECT 2"]),
        watermark=st.sampled_from(["", "w1", "w2"]),
        size=st.sampled_from([1, 5, 100]),
    )
    def put(self, scope: CacheScope, source: str, sql: str, watermark: str, size: int) -> None:
        result = result_of([(f"{scope.tenant} {self.now}",)] * size)
        self.model[scope, source, sql, watermark] = (self.now, result)
        self.cache.put(scope, source, sql, watermark, self.now, result)

    @rule(
        scope=SCOPES,
        source=st.sampled_from(["game", "logs"]),
        sql=st.sampled_from(["SELECT 1", "SELECT 2"]),
        watermark=st.sampled_from(["", "w1", "w2"]),
    )
    def get(self, scope: CacheScope, source: str, sql: str, watermark: str) -> None:
        found = self.cache.get(scope, source, sql, watermark, self.now)
        if found is not None:
            kept_at, expected = self.model[scope, source, sql, watermark]
            assert found == expected
            assert self.now - kept_at < 10
            assert str(found.rows[0][0]).startswith(scope.tenant)

    @invariant()
    def counts_its_bytes(self) -> None:
        assert self.cache.held_bytes == sum(kept.size for kept in self.cache._kept.values())
        assert self.cache.held_bytes <= 4000
        assert len(self.cache._kept) <= 3


TestDecisions = DecisionMachine.TestCase
TestResults = ResultMachine.TestCase


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant": TenantId("b")},
        {"roles": ("admin",)},
        {"sources": ("logs",)},
        {"catalog_versions": ("c2",)},
        {"layer_versions": ("l2",)},
        {"library_version": "7"},
    ],
)
def test_every_part_of_the_scope_is_part_of_every_key(changed: dict[str, object]) -> None:
    other = attrs.evolve(SCOPE, **changed)  # type: ignore[arg-type]
    exact, results, semantic = ExactCache(), ResultCache(), SemanticCache(threshold=0.5)
    exact.put(SCOPE, "revenue", DAY, Decision("SELECT 1", "game", "metric"))
    semantic.put(SCOPE, "revenue", DAY, NOTHING, Decision("SELECT 1", "game", "metric"))
    results.put(SCOPE, "game", "SELECT 1", "", 0.0, result_of([("x",)]))

    assert exact.get(SCOPE, "Revenue?", DAY) is not None
    assert semantic.get(SCOPE, "Revenue?", DAY, NOTHING) is not None
    assert results.get(SCOPE, "game", "SELECT 1", "", 1.0) is not None
    assert exact.get(other, "revenue", DAY) is None
    assert semantic.get(other, "revenue", DAY, NOTHING) is None
    assert results.get(other, "game", "SELECT 1", "", 1.0) is None


def test_decisions_of_yesterday_are_not_given_today() -> None:
    exact, semantic = ExactCache(), SemanticCache(threshold=0.5)
    exact.put(SCOPE, "revenue yesterday", DAY, Decision("SELECT 1", "game", "metric"))
    semantic.put(SCOPE, "revenue yesterday", DAY, NOTHING, Decision("SELECT 1", "game", "metric"))

    tomorrow = DAY + dt.timedelta(days=1)
    assert exact.get(SCOPE, "revenue yesterday", tomorrow) is None
    assert semantic.get(SCOPE, "revenue yesterday", tomorrow, NOTHING) is None


def test_results_age_and_follow_the_data() -> None:
    cache = ResultCache(seconds=30)
    cache.put(SCOPE, "game", "SELECT 1", "w1", 100.0, result_of([("x",)]))

    assert cache.get(SCOPE, "game", "SELECT 1", "w1", 129.9) is not None
    assert cache.get(SCOPE, "game", "SELECT 1", "w2", 101.0) is None
    assert cache.get(SCOPE, "game", "SELECT 1", "w1", 130.0) is None
    assert cache.get(SCOPE, "game", "SELECT 1", "w1", 99.0) is None, "clocks that go back prove nothing"


def test_a_huge_result_does_not_push_all_others_out() -> None:
    cache = ResultCache(seconds=30, max_bytes=10_000)
    cache.put(SCOPE, "game", "small", "", 0.0, result_of([("x",)]))
    cache.put(SCOPE, "game", "huge", "", 0.0, result_of([("x" * 9000,)]))

    assert cache.get(SCOPE, "game", "small", "", 1.0) is not None
    assert cache.get(SCOPE, "game", "huge", "", 1.0) is None


NAMES = [folded(name) for name in ("revenue", "active players", "收入", "活跃玩家", "ios", "android")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("revenue in May 2026", "revenue in May 2025"),
        ("revenue of the top 5 servers", "revenue of the top 6 servers"),
        ("revenue in May", "revenue in March"),
        ("revenue on ios", "revenue on android"),
        ("revenue last week", "revenue this week"),
        ("revenue by server", "active players by server"),
        ("servers with most revenue", "servers with least revenue"),
        ("revenue with ios", "revenue without ios"),
        ("revenue by day", "revenue by week"),
        ("sessions per week this week", "sessions per week of this weekend"),
        ("上月收入", "本月收入"),
        ("最高的收入", "最低的收入"),
        ("三月收入", "四月收入"),
        ("ios的收入", "除ios的收入"),
        ("3月上旬收入", "3月下旬收入"),
        ("收入同比", "收入环比"),
    ],
)
def test_the_semantic_cache_tells_near_misses_apart(one: str, other: str) -> None:
    cache = SemanticCache(threshold=0.1)
    cache.put(SCOPE, one, DAY, signature_of(one, NAMES), Decision("SELECT 1", "game", "metric"))

    assert cache.get(SCOPE, other, DAY, signature_of(other, NAMES)) is None


def test_the_semantic_cache_takes_other_words_for_the_same() -> None:
    cache = SemanticCache(threshold=0.7)
    one, other = "please show me the revenue in May", "please show us the revenue in May"
    cache.put(SCOPE, one, DAY, signature_of(one, NAMES), Decision("SELECT 1", "game", "metric"))

    assert cache.get(SCOPE, other, DAY, signature_of(other, NAMES)) == Decision("SELECT 1", "game", "metric")


def test_likeness_can_come_from_an_embedding() -> None:
    vectors = {"one": [1.0, 0.0], "other": [0.9, 0.1], "third": [0.0, 1.0]}
    cache = SemanticCache(threshold=0.9, embed=lambda text: vectors[text])
    cache.put(SCOPE, "one", DAY, NOTHING, Decision("SELECT 1", "game", "metric"))

    assert cache.get(SCOPE, "other", DAY, NOTHING) is not None
    assert cache.get(SCOPE, "third", DAY, NOTHING) is None


def test_ngram_likeness() -> None:
    assert ngram_cosine("revenue", "revenue") == pytest.approx(1)
    assert ngram_cosine("revenue", "zzz") == 0
    assert ngram_cosine("", "") == pytest.approx(1)
    assert ngram_cosine("a", "") == 0
