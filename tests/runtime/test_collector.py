import gc
import weakref
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from runtime.collector import THRESHOLDS, collect_rarely, keep_tidy, trim_heap


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_collector_is_slower_but_not_off() -> None:
    gc.set_threshold(700, 10, 10)
    collect_rarely()

    assert gc.isenabled()
    assert gc.get_threshold() == THRESHOLDS
    assert all(now > default for now, default in zip(THRESHOLDS, (700, 10, 10), strict=True))


class Knot:
    """Holds itself."""

    def __init__(self) -> None:
        self.me = self


async def test_what_lies_in_cycles_is_found_and_memory_is_given_back(autojump_clock: trio.testing.MockClock) -> None:
    collect_rarely()
    trims: list[float] = []
    knot = weakref.ref(Knot())
    with trio.move_on_after(185):
        await keep_tidy(60, trim=lambda: trims.append(0.0))

    assert knot() is None
    assert len(trims) == 3


def test_free_memory_can_be_given_back_on_this_system() -> None:
    trim_heap()
