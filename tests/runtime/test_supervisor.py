from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from runtime.child import (
    ChildContext,
    ChildEnded,
    ChildError,
    ChildExists,
    ChildSpec,
    ChildUnknown,
    Expected,
    OnGiveUp,
    Run,
    SupervisorClosed,
    SupervisorGaveUp,
)
from runtime.lifecycle import State
from runtime.restart import Intensity, RestartKind
from runtime.supervisor import Strategy, is_bug, open_supervisor

Status = trio.TaskStatus[Any]
ONE = Intensity(max_restarts=1, period_seconds=1000.0)


def half() -> float:
    return 0.5


async def steady(context: ChildContext, /, *, task_status: Status) -> None:
    task_status.started(context.start)
    await context.draining.wait()


class Crash(Exception):
    pass


def crashes_after(seconds: float, times: int = 10**6) -> Run:
    async def run(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started(context.start)
        if context.start < times:
            await trio.sleep(seconds)
            raise Crash(f"life {context.start}")
        await context.draining.wait()

    return run


async def test_start_child_waits_for_readiness_and_returns_its_value(autojump_clock: trio.testing.MockClock) -> None:
    async def slow(context: ChildContext, /, *, task_status: Status) -> None:
        await trio.sleep(3)
        task_status.started("http://here")
        await context.draining.wait()

    async with open_supervisor("s") as supervisor:
        assert await supervisor.start_child(ChildSpec("a", slow)) == "http://here"
        assert trio.current_time() == 3
        child = supervisor.statistics().child("a")
        assert (child.state, child.starts, child.ready_since) == (State.RUNNING, 1, 3.0)
    assert supervisor.statistics().child("a").state is State.STOPPED
    assert trio.current_time() == 3


async def test_a_crash_restarts_only_that_child_after_its_backoff(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor("s", draw=half) as supervisor:
        await supervisor.start_child(ChildSpec("well", steady))
        await supervisor.start_child(ChildSpec("ill", crashes_after(1.0, times=2)))
        await trio.sleep(1.0 + 0.1)
        ill = supervisor.statistics().child("ill")
        assert (ill.state, ill.last_error, ill.last_error_at) == (State.FAILED, "Crash: life 0", 1.0)
        await trio.sleep(0.25)
        assert supervisor.statistics().child("ill").state is State.RUNNING
        await trio.sleep(10)

        ill = supervisor.statistics().child("ill")
        assert (ill.state, ill.starts, ill.restarts) == (State.RUNNING, 3, 2)
        assert ill.ready_since == 1.0 + 0.25 + 1.0 + 0.5
        assert supervisor.statistics().child("well").starts == 1


@pytest.mark.parametrize(
    ("kind", "failing", "restarts"),
    [
        (RestartKind.PERMANENT, True, True),
        (RestartKind.PERMANENT, False, True),
        (RestartKind.TRANSIENT, True, True),
        (RestartKind.TRANSIENT, False, False),
        (RestartKind.TEMPORARY, True, False),
        (RestartKind.TEMPORARY, False, False),
    ],
)
async def test_restart_kinds(
    kind: RestartKind, failing: bool, restarts: bool, autojump_clock: trio.testing.MockClock
) -> None:
    lives = 0

    async def run(context: ChildContext, /, *, task_status: Status) -> None:
        nonlocal lives
        lives += 1
        task_status.started()
        if context.start:
            await context.draining.wait()
        if failing:
            raise Crash

    async with open_supervisor("s", draw=half) as supervisor:
        supervisor.start_child_nowait(ChildSpec("a", run, restart=kind))
        await trio.sleep(5)
        assert lives == 1 + restarts
        if kind is RestartKind.TEMPORARY:
            assert supervisor.statistics().children == ()
            supervisor.start_child_nowait(ChildSpec("a", steady))
        elif not restarts:
            await supervisor.wait_all_ended()


async def test_expected_is_a_normal_end_even_inside_nested_groups(autojump_clock: trio.testing.MockClock) -> None:
    async def run(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise Expected

    async with open_supervisor("s") as supervisor:
        supervisor.start_child_nowait(ChildSpec("a", run, restart=RestartKind.TRANSIENT))
        await supervisor.wait_all_ended()
        child = supervisor.statistics().child("a")
        assert (child.state, child.restarts, child.last_error) == (State.STOPPED, 0, None)


async def test_a_group_of_one_is_reported_as_what_it_holds(autojump_clock: trio.testing.MockClock) -> None:
    async def run(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started()
        async with trio.open_nursery(), trio.open_nursery():
            raise Crash("deep")

    async with open_supervisor("s") as supervisor:
        supervisor.start_child_nowait(ChildSpec("a", run, restart=RestartKind.TRANSIENT, intensity=Intensity(0)))
        await supervisor.wait_all_ended()
        assert supervisor.statistics().child("a").last_error == "Crash: deep"


async def test_quarantine_leaves_siblings_alone_and_can_be_released(autojump_clock: trio.testing.MockClock) -> None:
    with capture_logs() as captured:
        async with open_supervisor("s", draw=half) as supervisor:
            await supervisor.start_child(ChildSpec("well", steady))
            await supervisor.start_child(ChildSpec("ill", crashes_after(0.1, times=2), intensity=ONE))
            await trio.sleep(60)
            ill = supervisor.statistics().child("ill")
            assert (ill.state, ill.starts) == (State.QUARANTINED, 2)
            assert supervisor.statistics().child("well").starts == 1
            with pytest.raises(ChildError, match="not quarantined"):
                supervisor.release_child("well")

            supervisor.release_child("ill")
            await trio.sleep(1)
            assert supervisor.statistics().child("ill").state is State.RUNNING
    quarantined = [entry for entry in captured if entry["event"] == "runtime.child.quarantined"]
    assert len(quarantined) == 1
    assert "ended 2 times" in quarantined[0]["reason"]


async def test_escalation_drains_the_others_then_raises(autojump_clock: trio.testing.MockClock) -> None:
    ended: list[str] = []

    async def polite(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started()
        await context.draining.wait()
        await trio.sleep(1)
        ended.append(context.name)

    with pytest.raises(SupervisorGaveUp, match="s: gave up on ill: ended 2 times") as caught:  # noqa: PT012
        async with open_supervisor("s", draw=half) as supervisor:
            await supervisor.start_child(ChildSpec("a", polite))
            await supervisor.start_child(ChildSpec("b", polite))
            await supervisor.start_child(
                ChildSpec("ill", crashes_after(0.1), intensity=ONE, on_give_up=OnGiveUp.ESCALATE)
            )
            await trio.sleep_forever()

    assert isinstance(caught.value.__cause__, Crash)
    assert ended == ["b", "a"]


async def test_escalation_hides_that_the_block_could_start_nothing_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(SupervisorGaveUp):  # noqa: PT012
        async with open_supervisor("s") as supervisor:
            await supervisor.start_child(ChildSpec("slow", crashes_after(100.0)))
            spec = ChildSpec("ill", crashes_after(0.0), intensity=Intensity(0), on_give_up=OnGiveUp.ESCALATE)
            await supervisor.start_child(spec)
            await trio.sleep(1)
            supervisor.start_child_nowait(ChildSpec("more", steady))


async def test_start_deadline_counts_as_a_failure(autojump_clock: trio.testing.MockClock) -> None:
    async def never(context: ChildContext, /, *, task_status: Status) -> None:
        await trio.sleep_forever()

    async with open_supervisor("s", draw=half) as supervisor:
        with pytest.raises(ChildEnded) as caught:
            await supervisor.start_child(ChildSpec("a", never, start_seconds=2.0, intensity=ONE))
        assert trio.current_time() == 2.0 + 0.25 + 2.0
        assert "not ready within 2 s" in str(caught.value.__cause__)
        assert supervisor.statistics().child("a").state is State.QUARANTINED


async def test_ending_before_ready_is_a_failure(autojump_clock: trio.testing.MockClock) -> None:
    async def short(context: ChildContext, /, *, task_status: Status) -> None:
        await trio.sleep(0.1)

    async def broken(context: ChildContext, /, *, task_status: Status) -> None:
        raise RuntimeError("own words")

    async with open_supervisor("s", draw=half) as supervisor:
        with pytest.raises(ChildEnded) as caught:
            await supervisor.start_child(ChildSpec("a", short, restart=RestartKind.TEMPORARY))
        assert "ended before it was ready" in str(caught.value.__cause__)
        with pytest.raises(ChildEnded) as caught:
            await supervisor.start_child(ChildSpec("b", broken, restart=RestartKind.TEMPORARY))
        assert str(caught.value.__cause__) == "own words"


async def test_a_body_that_is_ready_and_done_at_once_was_ready(autojump_clock: trio.testing.MockClock) -> None:
    async def quick(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started(5)

    async with open_supervisor("s") as supervisor:
        spec = ChildSpec("a", quick, restart=RestartKind.TRANSIENT, heartbeat_seconds=1.0)
        assert await supervisor.start_child(spec) == 5
        await supervisor.wait_all_ended()
        assert supervisor.statistics().child("a").last_error is None
    assert trio.current_time() == 0


async def test_heartbeat_watchdog_cancels_only_the_silent_child(autojump_clock: trio.testing.MockClock) -> None:
    async def beats(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started()
        while not context.draining.is_set():
            await trio.sleep(0.9)
            context.heartbeat()

    async def hangs(context: ChildContext, /, *, task_status: Status) -> None:
        await trio.sleep(5)  # the watch begins with readiness
        task_status.started()
        if context.start == 0:
            await trio.sleep_forever()
        await beats(context, task_status=trio.TASK_STATUS_IGNORED)

    async with open_supervisor("s", draw=half) as supervisor:
        await supervisor.start_child(ChildSpec("beats", beats, heartbeat_seconds=1.0))
        await supervisor.start_child(ChildSpec("hangs", hangs, heartbeat_seconds=1.0))
        await trio.sleep_until(6.1)
        hangs_now = supervisor.statistics().child("hangs")
        assert hangs_now.state is State.FAILED
        assert hangs_now.last_error == "ChildSilent: hangs: no heartbeat for 1.0 s"
        await trio.sleep_until(30)
        assert supervisor.statistics().child("hangs").starts == 2
        assert supervisor.statistics().child("beats").starts == 1


async def test_drain_asks_waits_then_cancels_in_reverse_order(autojump_clock: trio.testing.MockClock) -> None:
    log: list[tuple[str, str, float]] = []

    def child(politely: float | None) -> Run:
        async def run(context: ChildContext, /, *, task_status: Status) -> None:
            task_status.started()
            try:
                await context.draining.wait()
                log.append((context.name, "asked", trio.current_time()))
                await trio.sleep(1000.0 if politely is None else politely)
            finally:
                log.append((context.name, "ended", trio.current_time()))

        return run

    async with open_supervisor("s") as supervisor:
        await supervisor.start_child(ChildSpec("a", child(1.0)))
        await supervisor.start_child(ChildSpec("b", child(None), shutdown_grace_seconds=3.0))
        await supervisor.start_child(ChildSpec("c", child(2.0)))
        await supervisor.drain()
        with pytest.raises(SupervisorClosed):
            supervisor.start_child_nowait(ChildSpec("d", steady))
        cancels = {entry.name: entry.cancels for entry in supervisor.statistics().children}

    assert log == [
        ("c", "asked", 0),
        ("c", "ended", 2),
        ("b", "asked", 2),
        ("b", "ended", 5),
        ("a", "asked", 5),
        ("a", "ended", 6),
    ]
    assert cancels == {"a": 0, "b": 1, "c": 0}


async def test_a_shielded_end_is_waited_for_so_that_nothing_runs_unseen(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def shielded(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started()
        with trio.CancelScope(shield=True):
            await trio.sleep(20)

    async with open_supervisor("s") as supervisor:
        await supervisor.start_child(ChildSpec("a", shielded, shutdown_grace_seconds=1.0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.drain)
            await trio.sleep(10)
            assert supervisor.statistics().child("a").state is State.DRAINING
    assert trio.current_time() == 20
    assert supervisor.statistics().child("a").cancels == 1


async def test_cancelling_the_block_cancels_children_at_once(autojump_clock: trio.testing.MockClock) -> None:
    with trio.move_on_after(2) as scope:
        async with open_supervisor("s") as supervisor:
            await supervisor.start_child(ChildSpec("a", steady, shutdown_grace_seconds=50))
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == 2


async def test_an_error_in_the_block_drains_and_comes_out_bare(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(Crash, match="mine"):  # noqa: PT012
        async with open_supervisor("s") as supervisor:
            await supervisor.start_child(ChildSpec("a", steady))
            raise Crash("mine")


async def test_an_error_while_the_run_is_cancelled_does_not_replace_the_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def spiteful(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            raise Crash("while ending")

    with trio.move_on_after(1) as scope:
        async with open_supervisor("s") as supervisor:
            await supervisor.start_child(ChildSpec("a", spiteful))
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_stop_child_forgets_it_and_names_are_checked(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor("s") as supervisor:
        await supervisor.start_child(ChildSpec("a", steady))
        with pytest.raises(ChildExists):
            supervisor.start_child_nowait(ChildSpec("a", steady))
        assert (await supervisor.stop_child("a")).state is State.STOPPED
        with pytest.raises(ChildUnknown):
            await supervisor.stop_child("a")
        await supervisor.start_child(ChildSpec("a", steady))


async def test_stopping_during_backoff_does_not_wait_for_it(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor("s", draw=lambda: 0.999) as supervisor:
        spec = ChildSpec("a", crashes_after(0.0), intensity=Intensity(base_seconds=20.0))
        supervisor.start_child_nowait(spec)
        await trio.sleep(1)
        assert (await supervisor.stop_child("a")).state is State.FAILED
    assert trio.current_time() == 1


async def test_rest_for_one_restarts_the_followers_in_order(autojump_clock: trio.testing.MockClock) -> None:
    log: list[str] = []
    fail = trio.Event()

    def part(ready_seconds: float, *, fails: bool = False) -> Run:
        async def run(context: ChildContext, /, *, task_status: Status) -> None:
            await trio.sleep(ready_seconds)
            log.append(f"{context.name}{context.start} up")
            task_status.started()
            if fails and context.start == 0:
                await fail.wait()
                log.append(f"{context.name} fails")
                raise Crash
            await context.draining.wait()
            log.append(f"{context.name}{context.start} down")

        return run

    async with open_supervisor("phone", strategy=Strategy.REST_FOR_ONE, draw=half) as supervisor:
        supervisor.start_child_nowait(ChildSpec("link", part(1.0)))
        supervisor.start_child_nowait(ChildSpec("capture", part(1.0, fails=True)))
        supervisor.start_child_nowait(ChildSpec("act", part(0.0), restart=RestartKind.TRANSIENT))
        supervisor.start_child_nowait(ChildSpec("once", part(0.0), restart=RestartKind.TEMPORARY))
        supervisor.start_child_nowait(ChildSpec("plan", part(0.0)))
        await trio.sleep(5)
        fail.set()
        await trio.sleep(5)
        log.append("--")
    assert log == [
        *("link0 up", "capture0 up", "act0 up", "once0 up", "plan0 up"),
        *("capture fails", "plan0 down", "once0 down", "act0 down"),
        *("capture1 up", "act1 up", "plan1 up", "--"),
        *("plan1 down", "act1 down", "capture1 down", "link0 down"),
    ]


async def test_rest_for_one_restarts_nothing_while_a_follower_still_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def lifts_its_finger(context: ChildContext, /, *, task_status: Status) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(7)

    starts: list[float] = []

    async def link(context: ChildContext, /, *, task_status: Status) -> None:
        starts.append(trio.current_time())
        task_status.started()
        if context.start == 0:
            await trio.sleep(1)
            raise Crash
        await context.draining.wait()

    async with open_supervisor("phone", strategy=Strategy.REST_FOR_ONE, draw=half) as supervisor:
        await supervisor.start_child(ChildSpec("link", link))
        await supervisor.start_child(ChildSpec("act", lifts_its_finger, shutdown_grace_seconds=2.0))
        await trio.sleep(30)
    assert starts == [0, 1 + 2 + 7 + 0.25]


async def test_rest_for_one_holds_the_followers_of_a_quarantined_child(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor("phone", strategy=Strategy.REST_FOR_ONE, draw=half) as supervisor:
        await supervisor.start_child(ChildSpec("link", steady))
        await supervisor.start_child(ChildSpec("capture", crashes_after(1.0), intensity=ONE))
        await supervisor.start_child(ChildSpec("plan", steady))
        await trio.sleep(30)
        states = {child.name: child.state for child in supervisor.statistics().children}
        assert states == {"link": State.RUNNING, "capture": State.QUARANTINED, "plan": State.STOPPED}
        supervisor.release_child("capture")
        await trio.sleep(0.5)
        states = {child.name: child.state for child in supervisor.statistics().children}
        assert set(states.values()) == {State.RUNNING}


async def test_a_thousand_children_come_and_go(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor("farm") as supervisor:
        for number in range(1000):
            supervisor.start_child_nowait(ChildSpec(f"phone-{number}", steady))
        await trio.sleep(0.1)
        assert all(child.state is State.RUNNING for child in supervisor.statistics().children)
    assert all(child.state is State.STOPPED for child in supervisor.statistics().children)


class PeerGone(Exception):
    """Stands for a room's own error."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PeerGone("x"), False),
        (ConnectionResetError("x"), False),
        (ExceptionGroup("g", [PeerGone("x")]), False),
        (ZeroDivisionError("x"), True),
        (AssertionError("x"), True),
        (ExceptionGroup("g", [PeerGone("x"), KeyError("k")]), True),
    ],
)
def test_only_bugs_deserve_a_traceback(error: BaseException, expected: bool) -> None:
    assert is_bug(error) is expected
