import gc
from collections.abc import Iterator

import pytest

from runtime.collector import THRESHOLDS, collect_rarely


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
