import pytest
import trio
import trio.testing

from inference.errors import EngineTooSlow, Overloaded
from inference.slots import NOBODY, EngineSlots, SlotsClosed


async def test_earliest_deadline_goes_first(autojump_clock: trio.testing.MockClock) -> None:
    slots = EngineSlots("e", 1, 10)
    order: list[float] = []
    await slots.acquire(100.0)

    async def wait(deadline: float) -> None:
        await slots.acquire(deadline)
        order.append(deadline)
        slots.release()

    async with trio.open_nursery() as nursery:
        for deadline in (50.0, 20.0, 70.0, 20.0):
            nursery.start_soon(wait, deadline)
        await trio.testing.wait_all_tasks_blocked()
        assert slots.waiting == 4
        slots.release()
    assert order == [20.0, 20.0, 50.0, 70.0]
    assert (slots.in_flight, slots.waiting) == (0, 0)


async def test_full_queue_is_overloaded_and_a_late_one_too_slow(autojump_clock: trio.testing.MockClock) -> None:
    slots = EngineSlots("e", 1, 1)
    await slots.acquire(100.0)
    async with trio.open_nursery() as nursery:

        async def late() -> None:
            with pytest.raises(EngineTooSlow, match="nothing was sent"):
                await slots.acquire(5.0)
            assert trio.current_time() == 5.0

        nursery.start_soon(late)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Overloaded, match="1 requests are at the engine and 1 wait"):
            await slots.acquire(100.0)
    with pytest.raises(EngineTooSlow, match="had passed"):
        await slots.acquire(5.0)
    assert (slots.in_flight, slots.waiting) == (1, 0)


async def test_a_seat_granted_to_a_cancelled_task_is_passed_on(autojump_clock: trio.testing.MockClock) -> None:
    slots = EngineSlots("e", 1, 5)
    await slots.acquire(100.0)
    got: list[str] = []

    async def wait(name: str, scope: trio.CancelScope, deadline: float) -> None:
        with scope:
            await slots.acquire(deadline)
            got.append(name)

    first, second = trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "first", first, 10.0)
        nursery.start_soon(wait, "second", second, 20.0)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        slots.release()
    assert got == ["second"] or (got == ["first"] and slots.in_flight == 1)
    assert slots.in_flight == 1


async def test_evicted_waiters_look_elsewhere(autojump_clock: trio.testing.MockClock) -> None:
    slots = EngineSlots("e", 1, 5)
    await slots.acquire(100.0)

    async def wait() -> None:
        with pytest.raises(SlotsClosed):
            await slots.acquire(100.0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        slots.evict()
    assert (slots.in_flight, slots.waiting) == (1, 0)
    slots.release()
    await slots.wait_empty()


async def test_those_who_gave_up_do_not_pile_up_while_nothing_moves(autojump_clock: trio.testing.MockClock) -> None:
    slots = EngineSlots("e", 1, 2)
    await slots.acquire(1e9)
    for _ in range(200):
        with pytest.raises(EngineTooSlow):
            await slots.acquire(trio.current_time() + 1.0)
    assert len(slots._queue._accounts[NOBODY].heap) <= 21
    slots.release()
    await slots.acquire(1e9)
