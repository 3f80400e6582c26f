from hypothesis import given
from hypothesis import strategies as st

from inference.pressure import KvBrake


def test_the_brake_is_off_while_there_is_memory() -> None:
    brake = KvBrake(64)
    assert brake.observe(60, token_usage=0.6) == 64
    assert not brake.alarmed


def test_no_more_than_fill_nine_tenths_are_let_in() -> None:
    brake = KvBrake(64)
    assert brake.observe(40, token_usage=0.8) == 45
    assert brake.observe(45, token_usage=0.97) == 41
    assert brake.alarmed
    assert brake.observe(20, token_usage=0.4) == 64


def test_an_engine_that_threw_requests_out_is_halved_and_let_back_slowly() -> None:
    brake = KvBrake(64)
    assert brake.observe(40, preempted=7.0) == 64, "what was before us is not ours"
    assert brake.observe(40, preempted=9.0) == 20
    limits = [brake.observe(20, preempted=9.0) for _ in range(20)]
    assert limits[:4] == [20, 20, 22, 25]
    assert limits[-1] == 64
    assert brake.halvings == 1


def test_a_count_that_starts_anew_is_no_preemption() -> None:
    brake = KvBrake(64)
    brake.observe(40, preempted=9.0)
    assert brake.observe(40, preempted=0.0) == 64
    assert brake.observe(40, preempted=None) == 64
    assert brake.observe(40, preempted=1.0) == 20


def test_a_queue_inside_the_engine_is_not_fed() -> None:
    brake = KvBrake(64)
    assert brake.observe(60, running=16, waiting=44) == 64, "once may be a burst"
    assert brake.observe(60, running=16, waiting=44) == 16
    assert brake.observe(16, running=16, waiting=0) == 18
    assert brake.observe(16, running=16, waiting=1) == 18
    assert [brake.observe(16, running=12, waiting=3) for _ in range(3)] == [18] * 3


def test_requests_of_others_do_not_stop_us() -> None:
    assert KvBrake(64).observe(0, token_usage=0.99, running=30, waiting=20) == 64


@given(st.integers(1, 100), st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1), st.integers(0, 9)), max_size=50))
def test_one_request_is_always_let_in(most: int, probes: list[tuple[int, float, int]]) -> None:
    brake = KvBrake(most)
    for in_flight, usage, preempted in probes:
        assert 1 <= brake.observe(in_flight, token_usage=usage, running=3, waiting=9, preempted=preempted) <= most
