from collections import Counter

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference.homing import Candidate, Cause, Homing, Placement, Why, rendezvous
from runtime.ids import EngineId

A, B, C = EngineId("a"), EngineId("b"), EngineId("c")


def up(*engines: EngineId) -> list[Candidate]:
    return [Candidate(engine, available=True) for engine in engines]


def test_episodes_are_spread_evenly_and_stay() -> None:
    homing = Homing()
    first = {f"e{number}": homing.place(f"e{number}", up(A, B, C), 0.0) for number in range(30)}

    assert all(placement is not None and placement.why is Why.BORN for placement in first.values())
    assert Counter(placement.engine for placement in first.values() if placement) == {A: 10, B: 10, C: 10}
    for key, placement in first.items():
        assert placement is not None
        assert homing.place(key, up(A, B, C), 0.0) == Placement(placement.engine, Why.STICKY, Cause.HOME)


def test_weights_share_in_proportion() -> None:
    homing = Homing()
    candidates = [Candidate(A, available=True, weight=3.0), Candidate(B, available=True)]
    for number in range(40):
        homing.place(f"e{number}", candidates, 0.0)

    assert (homing.homed(A), homing.homed(B)) == (30, 10)


def test_placement_is_the_same_in_every_run_and_not_the_same_for_every_key() -> None:
    assert rendezvous("e1", A) == 9355900969144627630
    firsts = {Homing().place(f"e{number}", up(A, B, C), 0.0) for number in range(30)}
    assert len(firsts) == 3
    assert [Homing().place("e1", up(A, B, C), 0.0) for _ in range(3)] == [Homing().place("e1", up(C, B, A), 0.0)] * 3


def test_only_the_episodes_of_a_lost_engine_move() -> None:
    homing = Homing()
    keys = [f"e{number}" for number in range(9)]
    homes = {}
    for key in keys:
        homing.place(key, up(A, B, C), 0.0)
        homes[key] = homing.home_of(key)
    without_b = [Candidate(A, available=True), Candidate(B, available=False), Candidate(C, available=True)]

    for key in keys:
        placement = homing.place(key, without_b, 0.0)
        assert placement is not None
        assert placement.why is (Why.REHOMED if homes[key] == B else Why.STICKY)
        assert placement.engine != B
    assert homing.homed(B) == 0
    assert sorted([homing.homed(A), homing.homed(C)]) == [4, 5]


def test_a_spill_leaves_the_home_alone() -> None:
    homing = Homing()
    home = homing.place("e", up(A, B), 0.0)
    assert home is not None
    spilled = homing.place("e", up(A, B), 0.0, avoid=(home.engine,))

    assert spilled is not None
    assert spilled.why is Why.SPILLED
    assert spilled.engine != home.engine
    assert homing.home_of("e") == home.engine
    assert homing.place("e", up(home.engine), 0.0, avoid=(home.engine,)) is None


def test_none_available() -> None:
    assert Homing().place("e", [], 0.0) is None
    assert Homing().place("e", [Candidate(A, available=False)], 0.0) is None


def test_the_table_is_bounded_and_forgets_the_longest_unused() -> None:
    homing = Homing(max_homes=2)
    homing.place("e1", up(A), 0.0)
    homing.place("e2", up(A), 0.0)
    homing.place("e1", up(A), 0.0)
    homing.place("e3", up(A), 0.0)

    assert homing.home_of("e2") is None
    assert (len(homing), homing.homed(A), homing.forgotten) == (2, 2, 1)


def busy(engine: EngineId, load: int, wait_seconds: float, cold_seconds: float = 0.2) -> Candidate:
    return Candidate(engine, available=True, load=load, wait_seconds=wait_seconds, cold_seconds=cold_seconds)


def at_home(homing: Homing, key: str, engine: EngineId) -> None:
    placement = homing.place(key, up(engine), 0.0)
    assert placement is not None
    assert placement.engine == engine


def test_an_overloaded_home_spills_only_where_waiting_costs_more_than_a_cold_prefill() -> None:
    homing = Homing()
    at_home(homing, "e", A)

    under_its_bound = homing.place("e", [busy(A, 5, 9.0), busy(B, 5, 0.0)], 1.0)
    cheaper_to_wait = homing.place("e", [busy(A, 20, 0.19), busy(B, 2, 0.0)], 1.0)
    cheaper_to_go = homing.place("e", [busy(A, 20, 0.21), busy(B, 2, 0.0)], 1.0)

    assert under_its_bound == Placement(A, Why.STICKY, Cause.HOME)
    assert cheaper_to_wait == Placement(A, Why.STICKY, Cause.HOME_BUSY_BUT_WARM)
    assert cheaper_to_go == Placement(B, Why.SPILLED, Cause.HOME_OVERLOADED)
    assert homing.home_of("e") == A


def test_the_bound_is_a_quarter_over_the_share_of_the_weights() -> None:
    homing = Homing()
    at_home(homing, "e", A)
    heavy = Candidate(A, available=True, weight=3.0, load=8, wait_seconds=9.0)
    full = attrs.evolve(heavy, load=9)
    other = Candidate(B, available=True, weight=1.0, load=0)

    # ceil(1.25 x (8 + 1) x 3/4) = 9, and ceil(1.25 x (9 + 1) x 3/4) = 10
    assert homing.place("e", [heavy, other], 0.0) == Placement(A, Why.STICKY, Cause.HOME)
    assert homing.place("e", [full, other], 0.0) == Placement(A, Why.STICKY, Cause.HOME)
    assert homing.place("e", [attrs.evolve(heavy, load=20), other], 0.0) == Placement(
        B, Why.SPILLED, Cause.HOME_OVERLOADED
    )


def test_three_spills_in_ten_seconds_move_the_home_and_slower_ones_do_not() -> None:
    crowd = [busy(A, 20, 5.0), busy(B, 2, 0.0)]
    slow, fast = Homing(), Homing()
    at_home(slow, "e", A)
    at_home(fast, "e", A)

    whys = [placement.why for at in (0.0, 6.0, 12.0, 18.0) if (placement := slow.place("e", crowd, at))]
    assert whys == [Why.SPILLED] * 4
    placements = [fast.place("e", crowd, at) for at in (0.0, 5.0, 10.0)]
    assert placements[2] == Placement(B, Why.REHOMED, Cause.SPILLED_OFTEN)
    assert fast.home_of("e") == B
    assert (fast.homed(A), fast.homed(B)) == (0, 1)


def test_an_episode_that_is_out_at_an_engine_stays_there() -> None:
    homing = Homing()
    at_home(homing, "e", A)
    crowd = [busy(A, 20, 5.0), busy(B, 2, 0.0)]
    homing.began("e", B)

    assert homing.place("e", up(A, B), 0.0) == Placement(B, Why.SPILLED, Cause.ALREADY_THERE)
    homing.ended("e", B)
    assert homing.place("e", up(A, B), 0.0) == Placement(A, Why.STICKY, Cause.HOME)
    homing.began("e", A)
    assert homing.place("e", crowd, 0.0) == Placement(A, Why.STICKY, Cause.ALREADY_THERE)


def test_of_engines_with_as_many_episodes_the_less_busy_one_is_taken() -> None:
    placement = Homing().place("e", [busy(A, 3, 0.0), busy(B, 1, 0.0), busy(C, 2, 0.0)], 0.0)

    assert placement is not None
    assert placement.engine == B


class HomingMachine(RuleBasedStateMachine):
    """Episodes ask, one request at a time, while engines come and go and are busy."""

    def __init__(self) -> None:
        super().__init__()
        self.homing = Homing()
        self.now = 0.0
        self.available = dict.fromkeys((A, B, C), True)
        self.load = dict.fromkeys((A, B, C), 0)
        self.wait = dict.fromkeys((A, B, C), 0.0)
        self.homes: dict[str, EngineId] = {}
        self.out: dict[str, EngineId] = {}

    def candidates(self) -> list[Candidate]:
        return [
            Candidate(engine, available, load=self.load[engine], wait_seconds=self.wait[engine], cold_seconds=0.5)
            for engine, available in self.available.items()
        ]

    @rule(key=st.sampled_from("uvwxyz"), avoid=st.sets(st.sampled_from([A, B, C]), max_size=2), stays=st.booleans())
    def place(self, key: str, avoid: set[EngineId], stays: bool) -> None:
        usable = {engine for engine, available in self.available.items() if available}
        counts = {engine: self.homing.homed(engine) for engine in usable - avoid}
        home = self.homes.get(key)

        placement = self.homing.place(key, self.candidates(), self.now, avoid=avoid)

        if placement is None:
            assert not usable - avoid
            return
        engine = placement.engine
        assert engine in usable - avoid
        there = self.out.get(key)
        if there in usable - avoid:
            assert engine == there, "it would be on two engines at a time"
            assert placement.cause is Cause.ALREADY_THERE
        elif home is None:
            assert placement == Placement(engine, Why.BORN, Cause.FIRST_PROMPT)
            assert counts[engine] == min(counts.values())
        elif home not in usable:
            assert placement == Placement(engine, Why.REHOMED, Cause.HOME_UNAVAILABLE)
            assert counts[engine] == min(counts.values())
        elif engine == home:
            assert placement.why is Why.STICKY
            assert home not in avoid
        else:
            assert placement.why in {Why.SPILLED, Why.REHOMED}
            if home not in avoid:
                assert self.wait[home] > self.wait[engine] + 0.5, "waiting at home would have been cheaper"
        if placement.why in {Why.BORN, Why.REHOMED}:
            self.homes[key] = engine
        if stays and key not in self.out:
            self.out[key] = engine
            self.homing.began(key, engine)

    @rule(key=st.sampled_from("uvwxyz"))
    def end(self, key: str) -> None:
        if key in self.out:
            self.homing.ended(key, self.out.pop(key))

    @rule(key=st.sampled_from("uvwxyz"))
    def release(self, key: str) -> None:
        assert self.homing.release(key) == (self.homes.pop(key, None) is not None)
        self.out.pop(key, None)

    @rule(engine=st.sampled_from([A, B, C]), available=st.booleans())
    def change(self, engine: EngineId, available: bool) -> None:
        self.available[engine] = available

    @rule(engine=st.sampled_from([A, B, C]), load=st.integers(0, 60), wait=st.floats(0, 3), after=st.floats(0, 8))
    def crowd(self, engine: EngineId, load: int, wait: float, after: float) -> None:
        self.load[engine], self.wait[engine] = load, wait
        self.now += after

    @invariant()
    def none_is_lost_and_none_but_asked_for_moves(self) -> None:
        assert len(self.homing) == len(self.homes)
        for engine in (A, B, C):
            assert self.homing.homed(engine) == sum(1 for home in self.homes.values() if home == engine)
        assert all(self.homing.home_of(key) == home for key, home in self.homes.items())


HomingMachine.TestCase.settings = settings(max_examples=100)
TestHomingMachine = HomingMachine.TestCase
