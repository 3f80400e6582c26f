from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference.homing import Candidate, Homing, Placement, Why, rendezvous
from runtime.ids import EngineId

A, B, C = EngineId("a"), EngineId("b"), EngineId("c")


def up(*engines: EngineId) -> list[Candidate]:
    return [Candidate(engine, available=True) for engine in engines]


def test_episodes_are_spread_evenly_and_stay() -> None:
    homing = Homing()
    first = {f"e{number}": homing.place(f"e{number}", up(A, B, C)) for number in range(30)}

    assert all(placement is not None and placement.why is Why.BORN for placement in first.values())
    assert Counter(placement.engine for placement in first.values() if placement) == {A: 10, B: 10, C: 10}
    for key, placement in first.items():
        assert placement is not None
        assert homing.place(key, up(A, B, C)) == Placement(placement.engine, Why.STICKY)


def test_weights_share_in_proportion() -> None:
    homing = Homing()
    candidates = [Candidate(A, available=True, weight=3.0), Candidate(B, available=True)]
    for number in range(40):
        homing.place(f"e{number}", candidates)

    assert (homing.homed(A), homing.homed(B)) == (30, 10)


def test_placement_is_the_same_in_every_run_and_not_the_same_for_every_key() -> None:
    assert rendezvous("e1", A) == 9355900969144627630
    firsts = {Homing().place(f"e{number}", up(A, B, C)) for number in range(30)}
    assert len(firsts) == 3
    assert [Homing().place("e1", up(A, B, C)) for _ in range(3)] == [Homing().place("e1", up(C, B, A))] * 3


def test_only_the_episodes_of_a_lost_engine_move() -> None:
    homing = Homing()
    keys = [f"e{number}" for number in range(9)]
    homes = {}
    for key in keys:
        homing.place(key, up(A, B, C))
        homes[key] = homing.home_of(key)
    without_b = [Candidate(A, available=True), Candidate(B, available=False), Candidate(C, available=True)]

    for key in keys:
        placement = homing.place(key, without_b)
        assert placement is not None
        assert placement.why is (Why.REHOMED if homes[key] == B else Why.STICKY)
        assert placement.engine != B
    assert homing.homed(B) == 0
    assert sorted([homing.homed(A), homing.homed(C)]) == [4, 5]


def test_a_spill_leaves_the_home_alone() -> None:
    homing = Homing()
    home = homing.place("e", up(A, B))
    assert home is not None
    spilled = homing.place("e", up(A, B), avoid=(home.engine,))

    assert spilled is not None
    assert spilled.why is Why.SPILLED
    assert spilled.engine != home.engine
    assert homing.home_of("e") == home.engine
    assert homing.place("e", up(home.engine), avoid=(home.engine,)) is None


def test_none_available() -> None:
    assert Homing().place("e", []) is None
    assert Homing().place("e", [Candidate(A, available=False)]) is None


def test_the_table_is_bounded_and_forgets_the_longest_unused() -> None:
    homing = Homing(max_homes=2)
    homing.place("e1", up(A))
    homing.place("e2", up(A))
    homing.place("e1", up(A))
    homing.place("e3", up(A))

    assert homing.home_of("e2") is None
    assert (len(homing), homing.homed(A), homing.forgotten) == (2, 2, 1)


class HomingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.homing = Homing()
        self.available = dict.fromkeys((A, B, C), True)
        self.homes: dict[str, EngineId] = {}

    @rule(key=st.sampled_from("uvwxyz"), avoid=st.sets(st.sampled_from([A, B, C]), max_size=2))
    def place(self, key: str, avoid: set[EngineId]) -> None:
        candidates = [Candidate(engine, available) for engine, available in self.available.items()]
        usable = {engine for engine, available in self.available.items() if available}
        counts = {engine: self.homing.homed(engine) for engine in usable - avoid}

        placement = self.homing.place(key, candidates, avoid=avoid)

        if placement is None:
            assert not usable - avoid
            return
        assert placement.engine in usable - avoid
        home = self.homes.get(key)
        if placement.why is Why.STICKY:
            assert placement.engine == home
        else:
            assert counts[placement.engine] == min(counts.values())
            assert home in avoid or home not in usable
        if placement.why is Why.SPILLED:
            assert home in usable
        else:
            assert (placement.why is Why.BORN) == (home is None)
            self.homes[key] = placement.engine

    @rule(key=st.sampled_from("uvwxyz"))
    def release(self, key: str) -> None:
        assert self.homing.release(key) == (self.homes.pop(key, None) is not None)

    @rule(engine=st.sampled_from([A, B, C]), available=st.booleans())
    def change(self, engine: EngineId, available: bool) -> None:
        self.available[engine] = available

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.homing) == len(self.homes)
        for engine in (A, B, C):
            assert self.homing.homed(engine) == sum(1 for home in self.homes.values() if home == engine)
        assert all(self.homing.home_of(key) == home for key, home in self.homes.items())


HomingMachine.TestCase.settings = settings(max_examples=60)
TestHomingMachine = HomingMachine.TestCase
