import os
import signal

import pytest
import trio
import trio.testing

from runtime.signals import open_signal_drain


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_first_signal_drains_and_lets_the_block_end(
    number: signal.Signals, autojump_clock: trio.testing.MockClock
) -> None:
    drained = trio.Event()

    async def drain() -> None:
        await trio.sleep(1)
        drained.set()

    async with open_signal_drain(drain) as asked:
        os.kill(os.getpid(), number)
        await drained.wait()
    assert asked.asked == number.name
    assert not asked.cut


async def test_second_signal_cuts_block_and_drain(autojump_clock: trio.testing.MockClock) -> None:
    finished: list[bool] = []

    async def drain() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep(100)
        finished.append(True)

    async with open_signal_drain(drain) as asked:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep(1000)
    assert (asked.asked, asked.cut, finished) == ("SIGINT", True, [])
    assert trio.current_time() < 100


async def test_without_a_signal_nothing_happens_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def drain() -> None:
        raise AssertionError("not asked for")

    async with open_signal_drain(drain) as asked:
        await trio.lowlevel.checkpoint()
    assert asked.asked is None
    assert signal.getsignal(signal.SIGTERM) is before
