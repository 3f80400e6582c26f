"""Who is next: never two runs on one phone, nothing lost, fair by weight, and nobody waits for ever."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.farm.queue import Decision, FarmPhone, QueueSettings, Share, Waiting, decide
from runtime.ids import TenantId

SOON = QueueSettings(patience_seconds=100.0, ageing_seconds=100.0)


def phones(
    count: int, *, labels: tuple[str, ...] = (), prefix: str = "p", tenants: tuple[str, ...] = ()
) -> list[FarmPhone]:
    allowed = frozenset(TenantId(name) for name in tenants)
    return [FarmPhone(f"{prefix}{n}", frozenset(labels), allowed) for n in range(count)]


def run(
    name: str,
    tenant: str = "a",
    count: int = 1,
    *,
    labels: tuple[str, ...] = (),
    priority: int = 5,
    ready_at: float = 0.0,
    number: int = 0,
) -> Waiting:
    return Waiting(name, TenantId(tenant), count, frozenset(labels), priority, ready_at, number)


def choose(
    waiting: list[Waiting],
    farm: list[FarmPhone],
    *,
    busy: tuple[str, ...] = (),
    paused: tuple[str, ...] = (),
    free_runs: int = 100,
    shares: dict[str, Share] | None = None,
    now: float = 0.0,
) -> Decision:
    return decide(
        waiting,
        farm,
        unusable=frozenset(busy),
        paused=frozenset(paused),
        free_runs=free_runs,
        shares={TenantId(name): share for name, share in (shares or {}).items()},
        now=now,
        settings=SOON,
    )


def started(decision: Decision) -> list[str]:
    return [one.run for one in decision.starts]


def test_a_run_gets_phones_with_all_its_labels_that_its_tenant_may_use() -> None:
    farm = [
        *phones(2, labels=("old",), prefix="old"),
        *phones(2, labels=("new", "gpu"), prefix="new"),
        *phones(2, labels=("new", "gpu"), prefix="theirs", tenants=("b",)),
    ]

    decision = choose([run("r", "a", 2, labels=("new",))], farm)

    assert [set(one.phones) for one in decision.starts] == [{"new0", "new1"}]


def test_phones_with_rare_labels_are_kept_for_whoever_needs_them() -> None:
    farm = [*phones(1, labels=("rare",), prefix="a-rare"), *phones(1, prefix="plain")]

    decision = choose([run("any", number=0), run("needs it", labels=("rare",), number=1)], farm)

    assert {one.run: one.phones for one in decision.starts} == {"any": ("plain0",), "needs it": ("a-rare0",)}


def test_reserved_and_paused_phones_are_given_to_nobody_and_the_reason_is_told() -> None:
    decision = choose([run("r", count=3)], phones(4), busy=("p0",), paused=("p1",))

    assert started(decision) == []
    assert decision.reasons["r"] == "it needs 3 phones; 2 of those it may use are free"


def test_what_the_farm_cannot_play_says_so_and_is_in_nobodys_way() -> None:
    decision = choose(
        [run("huge", count=9), run("gone", count=4), run("small", number=1)], phones(4), paused=("p3",), now=1e6
    )

    assert started(decision) == ["small"]
    assert decision.reasons["huge"] == "it needs 9 phones; the farm has 4 for this tenant"
    assert "1 of the farm's 4 are paused" in decision.reasons["gone"]
    assert not decision.claimed


def test_priority_is_first_inside_a_tenant_and_waiting_makes_up_for_it() -> None:
    urgent = run("urgent", priority=9, ready_at=1000.0, number=2)

    assert started(choose([run("early", number=1), urgent], phones(1), now=1000.0)) == ["early"]
    assert started(choose([run("late", ready_at=900.0, number=1), urgent], phones(1), now=1000.0)) == ["urgent"]


def test_no_more_runs_play_at_a_time_than_may() -> None:
    decision = choose([run("1", number=1), run("2", number=2), run("3", number=3)], phones(9), free_runs=2)

    assert started(decision) == ["1", "2"]
    assert decision.reasons["3"] == "as many runs play as may play at a time"


def test_whoever_used_less_for_its_weight_is_first() -> None:
    waiting = [run("a", "a", number=0), run("b", "b", number=1)]

    assert started(choose(waiting, phones(1), shares={"a": Share(1, 100.0), "b": Share(1, 50.0)})) == ["b"]
    assert started(choose(waiting, phones(1), shares={"a": Share(4, 100.0), "b": Share(1, 50.0)})) == ["a"]


def test_a_thousand_runs_of_one_tenant_do_not_push_another_one_aside() -> None:
    many = [run(f"a{n}", "a", number=n) for n in range(1000)]

    decision = choose([*many, run("b", "b", ready_at=99.0, number=1000)], phones(4), now=100.0)

    assert "b" in started(decision)
    assert len(started(decision)) == 4


def test_phones_are_kept_for_a_run_that_was_passed_for_too_long() -> None:
    waiting = [run("big", "a", 3, number=0), run("small", "a", ready_at=150.0, number=1), run("theirs", "b", number=2)]
    shares = {"b": Share(1, 10.0)}

    before = choose(waiting, phones(3), busy=("p0",), shares=shares, now=100.0)
    after = choose(waiting, phones(3), busy=("p0",), shares=shares, now=200.0)

    assert set(started(before)) == {"small", "theirs"}
    assert started(after) == []
    assert after.claimed == {"p1": "big", "p2": "big"}
    assert "is first" in after.reasons["small"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(1, 4), st.sampled_from([(), ("x",), ("x", "y")]), st.integers(0, 9)
        ),
        max_size=12,
    ),
    st.sets(st.integers(0, 5)),
    st.integers(0, 5),
    st.floats(0, 1000),
)
def test_every_decision_is_legal(
    asked: list[tuple[str, int, tuple[str, ...], int]], busy: set[int], slots: int, now: float
) -> None:
    farm = [
        *phones(2),
        *phones(2, labels=("x",), prefix="q"),
        *phones(2, labels=("x", "y"), prefix="r", tenants=("a",)),
    ]
    taken = tuple(farm[n].id for n in busy)
    waiting = [
        run(str(n), tenant, count, labels=labels, priority=priority, number=n)
        for n, (tenant, count, labels, priority) in enumerate(asked)
    ]

    decision = choose(waiting, farm, busy=taken, free_runs=slots, now=now)

    given_out = [phone for start in decision.starts for phone in start.phones]
    assert len(given_out) == len(set(given_out))
    assert not set(given_out) & {*taken, *decision.claimed}
    assert len(decision.starts) <= slots
    by_name = {one.run: one for one in waiting}
    by_id = {one.id: one for one in farm}
    for start in decision.starts:
        assert len(start.phones) == by_name[start.run].phones
        assert all(by_id[phone].suits(by_name[start.run]) for phone in start.phones)
    assert {*started(decision), *decision.reasons} == set(by_name), "every run is started or told why not"
    assert not {*started(decision)} & {*decision.reasons}


def test_a_run_that_needs_every_phone_plays_although_small_ones_never_stop_coming() -> None:
    farm = phones(4)
    big = run("big", "a", 4, ready_at=0.0)
    playing = {f"small{n}": (f"p{n}", 30.0 * n) for n in range(4)}  # {run: (phone, ends at)}; they never end together
    used, number = 0.0, 4
    for step in range(200):
        now = 10.0 * step
        playing = {name: one for name, one in playing.items() if one[1] > now}
        small = [run(f"small{number + n}", "b", ready_at=now, priority=9, number=number + n) for n in range(4)]
        number += 4
        busy = tuple(phone for phone, _ in playing.values())
        decision = choose([big, *small], farm, busy=busy, shares={"b": Share(1, used)}, now=now)
        if "big" in started(decision):
            assert now < 400.0
            return
        for start in decision.starts:
            playing[start.run] = (start.phones[0], now + 110.0)
            used += 110.0
    raise AssertionError("it waits for ever")


class FarmWorld(RuleBasedStateMachine):
    """Runs come, play and end at any time; phones are paused and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.number = 0
        self.waiting: dict[str, Waiting] = {}
        self.playing: dict[str, tuple[Waiting, tuple[str, ...], float]] = {}
        self.done: list[str] = []
        self.paused: set[str] = set()
        self.used: dict[str, float] = {}

    @initialize()
    def begin(self) -> None:
        self.farm = [
            *phones(3),
            *phones(2, labels=("x",), prefix="q"),
            *phones(1, labels=("x",), prefix="r", tenants=("a",)),
        ]

    @rule(tenant=st.sampled_from("abc"), count=st.integers(1, 5), wants=st.booleans(), priority=st.integers(0, 9))
    def submit(self, tenant: str, count: int, wants: bool, priority: int) -> None:
        self.number += 1
        count = min(count, 2) if wants else count
        labels = ("x",) if wants else ()
        name = str(self.number)
        self.waiting[name] = run(
            name, tenant, count, labels=labels, priority=priority, ready_at=self.now, number=self.number
        )

    @rule(index=st.integers(0, 9))
    def end_one(self, index: int) -> None:
        if self.playing:
            self._end(sorted(self.playing)[index % len(self.playing)])

    @rule(index=st.integers(0, 5))
    def pause_or_resume(self, index: int) -> None:
        self.paused ^= {self.farm[index].id}

    @rule(seconds=st.floats(1, 300))
    def tick(self, seconds: float) -> None:
        self.now += seconds
        self._decide(free_runs=3)

    def _end(self, name: str) -> None:
        one, taken, since = self.playing.pop(name)
        self.used[one.tenant] = self.used.get(one.tenant, 0.0) + len(taken) * max(60.0, self.now - since)
        self.done.append(name)

    def _decide(self, free_runs: int) -> None:
        shares = {TenantId(name): Share(1.0, used) for name, used in self.used.items()}
        for one, taken, since in self.playing.values():
            before = shares.get(one.tenant, Share())
            shares[one.tenant] = Share(1.0, before.used_seconds + len(taken) * max(60.0, self.now - since))
        busy = frozenset(phone for _, taken, _ in self.playing.values() for phone in taken)
        decision = decide(
            list(self.waiting.values()),
            self.farm,
            unusable=busy,
            paused=frozenset(self.paused),
            free_runs=free_runs - len(self.playing),
            shares=shares,
            now=self.now,
            settings=SOON,
        )
        for start in decision.starts:
            self.playing[start.run] = (self.waiting.pop(start.run), start.phones, self.now)

    @invariant()
    def no_phone_has_two_runs(self) -> None:
        taken = [phone for _, phones_, _ in self.playing.values() for phone in phones_]
        assert len(taken) == len(set(taken))
        assert len(self.playing) <= 3

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        everywhere = [*self.waiting, *self.playing, *self.done]
        assert sorted(everywhere, key=int) == [str(n + 1) for n in range(self.number)]

    def teardown(self) -> None:
        """However it stands: once phones are back, everything ends, although small runs keep coming."""
        if not hasattr(self, "farm"):
            return
        self.paused.clear()
        mine = set(self.waiting)
        for step in range(3000):
            if not mine & set(self.waiting):
                return
            self.now += 30.0
            for name, (_, _, since) in list(self.playing.items()):
                if self.now - since >= 90.0 + 30.0 * (int(name) % 3):
                    self._end(name)
            if len(self.waiting) < 40:
                self.submit("abc"[step % 3], 1, bool(step % 2), 9)
            self._decide(free_runs=3)
        raise AssertionError(f"these wait for ever: {mine & set(self.waiting)}")


TestFarmWorld = FarmWorld.TestCase
TestFarmWorld.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
