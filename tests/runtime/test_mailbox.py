from collections import deque

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from runtime.mailbox import Mailbox, MailboxClosed, MailboxFull, Overflow


async def test_values_come_out_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox(3)
    for value in (1, 2, 3):
        await mailbox.put(value)

    assert [await mailbox.get(), mailbox.get_nowait(), await mailbox.get()] == [1, 2, 3]
    with pytest.raises(trio.WouldBlock):
        mailbox.get_nowait()


async def test_wait_holds_the_writer_until_there_is_room_and_keeps_the_order() -> None:
    mailbox: Mailbox[int] = Mailbox(1)
    await mailbox.put(1)
    with pytest.raises(trio.WouldBlock):
        mailbox.put_nowait(2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.put, 2)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(mailbox.put, 3)
        await trio.testing.wait_all_tasks_blocked()
        assert mailbox.statistics().waiting_puts == 2

        assert mailbox.get_nowait() == 1
        with pytest.raises(trio.WouldBlock):
            mailbox.put_nowait(4)  # the freed place belongs to the writer who waited
        assert [await mailbox.get(), await mailbox.get()] == [2, 3]


async def test_latest_slot_keeps_the_newest_and_counts_the_rest() -> None:
    mailbox: Mailbox[int] = Mailbox(1, Overflow.DROP_OLDEST)
    for value in range(10):
        await mailbox.put(value)

    assert await mailbox.get() == 9
    statistics = mailbox.statistics()
    assert (statistics.put, statistics.got, statistics.dropped, statistics.depth) == (10, 1, 9, 0)


async def test_reject_tells_the_writer() -> None:
    mailbox: Mailbox[int] = Mailbox(1, Overflow.REJECT)
    mailbox.put_nowait(1)

    with pytest.raises(MailboxFull, match="holds 1"):
        mailbox.put_nowait(2)
    with pytest.raises(MailboxFull):
        await mailbox.put(2)
    assert mailbox.statistics().rejected == 2
    assert mailbox.statistics().dropped == 0


async def test_cancelled_tasks_lose_and_leave_nothing() -> None:
    mailbox: Mailbox[int] = Mailbox(1)
    with trio.move_on_after(0) as scope:
        await mailbox.get()
    assert scope.cancelled_caught
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.get)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert mailbox.statistics().waiting_gets == 0

    mailbox.put_nowait(1)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.put, 2)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert mailbox.statistics().waiting_puts == 0
    assert mailbox.get_nowait() == 1
    assert len(mailbox) == 0


async def test_a_value_given_to_a_reader_survives_its_cancellation() -> None:
    mailbox: Mailbox[int] = Mailbox(1)
    got: list[int] = []

    async def read() -> None:
        got.append(await mailbox.get())

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            mailbox.put_nowait(7)
            scope.cancel()

    assert got == [7]


async def test_close_lets_readers_finish_and_wakes_everybody_else() -> None:
    mailbox: Mailbox[int] = Mailbox(1)
    mailbox.put_nowait(1)
    raised: list[str] = []

    async def write() -> None:
        with pytest.raises(MailboxClosed):
            await mailbox.put(2)
        raised.append("put")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close()
        mailbox.close()
    assert raised == ["put", "put"]

    with pytest.raises(MailboxClosed):
        mailbox.put_nowait(3)
    assert [value async for value in mailbox] == [1]
    with pytest.raises(MailboxClosed):
        await mailbox.get()


async def test_close_ends_a_waiting_iteration() -> None:
    mailbox: Mailbox[int] = Mailbox(2)
    seen: list[int] = []

    async def read() -> None:
        seen.extend([value async for value in mailbox])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await mailbox.put(1)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close()

    assert seen == [1]
    assert mailbox.statistics().closed


async def test_clear_counts_and_lets_waiting_writers_in() -> None:
    mailbox: Mailbox[int] = Mailbox(2)
    mailbox.put_nowait(1)
    mailbox.put_nowait(2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.put, 3)
        await trio.testing.wait_all_tasks_blocked()

        assert mailbox.clear() == 2
    assert mailbox.get_nowait() == 3
    assert mailbox.statistics().dropped == 2


def test_capacity_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Mailbox(0)


@given(
    st.integers(1, 4),
    st.sampled_from(Overflow),
    st.lists(st.one_of(st.integers(), st.just("get"), st.just("clear")), max_size=60),
)
def test_behaves_as_a_bounded_deque(capacity: int, overflow: Overflow, script: list[int | str]) -> None:
    mailbox: Mailbox[int | str] = Mailbox(capacity, overflow)
    model: deque[int | str] = deque()
    for step in script:
        if step == "get":
            if model:
                assert mailbox.get_nowait() == model.popleft()
            else:
                with pytest.raises(trio.WouldBlock):
                    mailbox.get_nowait()
        elif step == "clear":
            assert mailbox.clear() == len(model)
            model.clear()
        elif len(model) == capacity and overflow is Overflow.WAIT:
            with pytest.raises(trio.WouldBlock):
                mailbox.put_nowait(step)
        elif len(model) == capacity and overflow is Overflow.REJECT:
            with pytest.raises(MailboxFull):
                mailbox.put_nowait(step)
        else:
            if len(model) == capacity:
                model.popleft()
            model.append(step)
            mailbox.put_nowait(step)
        counts = mailbox.statistics()
        assert counts.depth == len(model) <= capacity
        assert counts.put == counts.got + counts.dropped + counts.depth


async def test_many_writers_and_readers_pass_every_value_once() -> None:
    mailbox: Mailbox[int] = Mailbox(2)
    seen: list[int] = []

    async def write(first: int) -> None:
        for value in range(first, first + 50):
            await mailbox.put(value)

    async def read() -> None:
        seen.extend([value async for value in mailbox])

    async with trio.open_nursery() as readers:
        for _ in range(3):
            readers.start_soon(read)
        async with trio.open_nursery() as writers:
            for first in (0, 50, 100, 150):
                writers.start_soon(write, first)
        mailbox.close()

    assert sorted(seen) == list(range(200))
