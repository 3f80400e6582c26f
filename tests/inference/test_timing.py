import pytest

from inference.timing import COLD_SECONDS, MARGIN, EngineTiming


def answered(timing: EngineTiming, now: float, *, cold: bool = False, prefill: float = 0.1) -> None:
    timing.observe(prefill_seconds=prefill, tpot_seconds=0.02, service_seconds=1.4, cold=cold, now=now)


def test_what_a_request_needs() -> None:
    timing = EngineTiming()
    assert timing.needed_seconds(64, 0.0, cold=False) is None
    answered(timing, 1.0)

    assert timing.needed_seconds(64, 2.0, cold=False) == pytest.approx(MARGIN * (0.1 + 63 * 0.02))
    assert timing.decode_seconds(1, 2.0) == 0.0
    assert timing.decode_seconds(None, 2.0) is None


def test_old_news_refuses_nothing() -> None:
    timing = EngineTiming()
    answered(timing, 1.0)

    assert timing.needed_seconds(64, 6.0, cold=False) is not None
    assert timing.needed_seconds(64, 6.1, cold=False) is None


def test_a_cold_prompt_costs_more() -> None:
    timing = EngineTiming()
    assert timing.cold_extra_seconds == COLD_SECONDS
    answered(timing, 1.0, cold=True, prefill=0.5)
    assert timing.cold_extra_seconds == COLD_SECONDS
    answered(timing, 1.0)

    assert timing.cold_extra_seconds == pytest.approx(0.4)
    cold, warm = (timing.needed_seconds(2, 1.0, cold=cold) for cold in (True, False))
    assert cold is not None
    assert warm is not None
    assert cold - warm == pytest.approx(MARGIN * 0.4)
