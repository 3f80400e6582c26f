"""Generated children that start, crash, hang, ignore, shield and fall silent, under a generated operator.

Hypothesis draws the whole script; trio's MockClock runs it, so that minutes of it take milliseconds.
"""

import logging
from collections import Counter, defaultdict
from typing import Any

import attrs
import trio
import trio.testing
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from runtime.child import ChildContext, ChildSpec, ChildUnknown, Expected, SupervisorClosed
from runtime.lifecycle import ALIVE, State
from runtime.restart import Intensity, RestartKind
from runtime.supervisor import Strategy, Supervisor, open_supervisor

logging.getLogger("hypothesis").setLevel(logging.WARNING)

SHIELD_SECONDS = 3.0
GRACE_SECONDS = 2.0
INTENSITY = Intensity(max_restarts=2, period_seconds=20.0, base_seconds=1.0, cap_seconds=4.0)


@attrs.frozen
class Life:
    """What the body does in one life."""

    ready_after: float | None
    works: float
    then: str
    """return, crash, group, expected, hang (until cancelled), silent, or wait (for the drain)."""
    ignores_drain: bool
    shields: bool


lives = st.builds(
    Life,
    ready_after=st.sampled_from([0.0, 0.0, 0.0, 0.5, 3.0, None]),
    works=st.sampled_from([0.0, 0.1, 1.0, 7.0]),
    then=st.sampled_from(["return", "crash", "group", "expected", "hang", "silent", "wait", "wait"]),
    ignores_drain=st.booleans(),
    shields=st.booleans(),
)


@attrs.frozen
class Script:
    """One child."""

    lives: tuple[Life, ...]
    """One for each life; the last is repeated."""
    restart: RestartKind
    watched: bool


scripts = st.builds(
    Script,
    lives=st.lists(lives, min_size=1, max_size=4).map(tuple),
    restart=st.sampled_from(RestartKind),
    watched=st.booleans(),
)
operator = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 2.0, 9.0]), st.sampled_from(["stop", "release", "add"]), st.integers(0, 5)),
    max_size=5,
)


class Ledger:
    """What really ran, as the bodies themselves saw it."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.order: list[str] = []
        self.running: Counter[str] = Counter()
        self.starts: defaultdict[str, list[float]] = defaultdict(list)
        self.ends: Counter[str] = Counter()

    def spec_for(self, name: str, script: Script) -> ChildSpec:
        self.order.append(name)

        async def run(context: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
            self.running[name] += 1
            assert self.running[name] == 1, f"{name} runs twice"
            self.starts[name].append(trio.current_time())
            if self.strategy is Strategy.REST_FOR_ONE:
                after = self.order[self.order.index(name) + 1 :]
                assert not any(self.running[other] for other in after), f"{name} starts while {after} run"
            life = script.lives[min(context.start, len(script.lives) - 1)]
            try:
                await live(life, context, task_status)
            finally:
                if life.shields:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(SHIELD_SECONDS)
                self.running[name] -= 1
                self.ends[name] += 1

        return ChildSpec(
            name,
            run,
            restart=script.restart,
            shutdown_grace_seconds=GRACE_SECONDS,
            start_seconds=2.0,
            heartbeat_seconds=1.5 if script.watched else None,
            intensity=INTENSITY,
        )


async def live(life: Life, context: ChildContext, task_status: trio.TaskStatus[Any]) -> None:
    if life.ready_after is None:
        await trio.sleep_forever()
    await trio.sleep(life.ready_after or 0.0)
    task_status.started()
    until = trio.current_time() + life.works
    while trio.current_time() < until or life.then in {"wait", "hang"}:
        if context.draining.is_set() and not life.ignores_drain:
            return
        await trio.sleep(0.5 if life.works else 0.25)
        context.heartbeat()
    if life.then == "crash":
        raise OSError("phone unplugged")
    if life.then == "group":
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash_after, 0.1)
            nursery.start_soon(crash_after, 0.1)
    if life.then == "expected":
        raise Expected
    if life.then == "silent":
        await trio.sleep_forever()


async def crash_after(seconds: float) -> None:
    await trio.sleep(seconds)
    raise ValueError("bad frame")


async def operate(supervisor: Supervisor, ledger: Ledger, orders: list[tuple[float, str, int]]) -> set[str]:
    stopped = set()
    for number, (after, order, index) in enumerate(orders):
        await trio.sleep(after)
        names = [child.name for child in supervisor.statistics().children]
        if order == "add":
            steady = Script((Life(0.0, 0.0, "wait", ignores_drain=False, shields=False),), RestartKind.PERMANENT, False)
            supervisor.start_child_nowait(ledger.spec_for(f"added-{number}", steady))
        elif names and order == "stop":
            name = names[index % len(names)]
            try:
                await supervisor.stop_child(name)
            except ChildUnknown:  # a temporary child that ended meanwhile
                continue
            assert ledger.running[name] == 0
            stopped.add(name)
        elif names and order == "release":
            name = names[index % len(names)]
            if supervisor.statistics().child(name).state is State.QUARANTINED:
                ledger.starts[name].clear()
                supervisor.release_child(name)
    return stopped


def check_against_ledger(supervisor: Supervisor, ledger: Ledger) -> None:
    for child in supervisor.statistics().children:
        running = ledger.running[child.name]
        assert running == 0 or child.state in ALIVE, f"{child.name} runs and is {child.state}"


async def check_all_the_time(supervisor: Supervisor, ledger: Ledger) -> None:
    while True:
        check_against_ledger(supervisor, ledger)
        await trio.sleep(0.37)


async def play(
    children: list[Script],
    orders: list[tuple[float, str, int]],
    strategy: Strategy,
    draw: float,
    drain_at: float,
) -> None:
    ledger = Ledger(strategy)
    steady = Script((Life(0.0, 0.0, "wait", ignores_drain=False, shields=False),), RestartKind.PERMANENT, True)
    async with open_supervisor("s", strategy=strategy, draw=lambda: draw) as supervisor:
        supervisor.start_child_nowait(ledger.spec_for("steady", steady))
        for number, script in enumerate(children):
            supervisor.start_child_nowait(ledger.spec_for(f"child-{number}", script))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(check_all_the_time, supervisor, ledger)
            stopped = await operate(supervisor, ledger, orders)
            await trio.sleep(drain_at)
            nursery.cancel_scope.cancel()

        listed = [child.name for child in supervisor.statistics().children]
        assert len(listed) == len(set(listed))
        alive = sum(ledger.running.values())
        began = trio.current_time()
        await supervisor.drain()
        took = trio.current_time() - began

        # Each of them may use up its grace and then its shield; "hold" of rest_for_one runs within the same bound.
        assert took <= len(listed) * (GRACE_SECONDS + SHIELD_SECONDS) + 1e-6
        assert sum(ledger.running.values()) == 0
        event(f"alive at the drain: {min(alive, 3)}")
        assert "steady" in stopped or len(ledger.starts["steady"]) == 1
        for child in supervisor.statistics().children:
            assert child.state not in ALIVE
            assert child.starts == ledger.ends[child.name]
            if child.state is State.QUARANTINED:
                event("quarantined")
        try:
            supervisor.start_child_nowait(ledger.spec_for("late", steady))
        except SupervisorClosed:
            pass
        else:
            raise AssertionError("started a child while draining")
    if strategy is Strategy.ONE_FOR_ONE:
        for name, starts in ledger.starts.items():
            assert_intensity_kept(name, starts)


def assert_intensity_kept(name: str, starts: list[float]) -> None:
    # A restart comes up to `cap_seconds` after the end that it follows, and ends are what is counted.
    surely_within = INTENSITY.period_seconds - INTENSITY.cap_seconds
    for first, start in enumerate(starts[1:], 1):
        window = [other for other in starts[first:] if other < start + surely_within]
        assert len(window) <= INTENSITY.max_restarts, f"{name} restarted at {window}"


@given(
    st.lists(scripts, min_size=1, max_size=5),
    operator,
    st.sampled_from(Strategy),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([0.0, 0.2, 3.1, 40.0]),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_child_runs_twice_none_is_lost_and_every_drain_ends(
    children: list[Script],
    orders: list[tuple[float, str, int]],
    strategy: Strategy,
    draw: float,
    drain_at: float,
) -> None:
    async def main() -> None:
        with trio.fail_after(10_000):
            await play(children, orders, strategy, draw, drain_at)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
