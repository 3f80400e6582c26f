import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.restart import Failure, GiveUp, Intensity, Restart, RestartKind, decide

CALM = Intensity(max_restarts=1000, period_seconds=1.0)


def failures(*ran_seconds: float) -> list[Failure]:
    return [Failure(at=10.0 * number, ran_seconds=ran) for number, ran in enumerate(ran_seconds)]


@pytest.mark.parametrize(
    ("ran", "bound"),
    [
        ([0.0], 0.5),
        ([0.0, 0.0], 1.0),
        ([0.0, 0.0, 0.0], 2.0),
        ([0.0] * 9, 30.0),
        ([0.0] * 5000, 30.0),
        ([0.0, 0.0, 30.0], 0.5),  # the run before the last end was healthy: a new series
        ([0.0, 0.0, 30.0, 1.0], 1.0),
    ],
)
def test_wait_doubles_from_base_to_cap_and_starts_anew_after_a_healthy_run(ran: list[float], bound: float) -> None:
    history = failures(*ran)

    assert decide(history, history[-1].at, CALM, 0.0) == Restart(0.0)
    assert decide(history, history[-1].at, CALM, 0.5) == Restart(bound / 2)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.floats(0, 1, exclude_max=True))
def test_wait_is_never_over_the_cap(ran: list[float], draw: float) -> None:
    verdict = decide(failures(*ran), 1e9, CALM, draw)

    assert isinstance(verdict, Restart)
    assert 0 <= verdict.after_seconds <= CALM.cap_seconds


@given(
    st.lists(st.floats(0, 200), min_size=1, max_size=30).map(sorted),
    st.integers(0, 6),
    st.floats(0.5, 100),
)
def test_gives_up_exactly_when_one_period_holds_too_many(ends: list[float], allowed: int, period: float) -> None:
    intensity = Intensity(max_restarts=allowed, period_seconds=period)
    now = ends[-1]
    inside = [end for end in ends if end > now - period]

    verdict = decide([Failure(end, 0.0) for end in ends], now, intensity, 0.5)

    assert isinstance(verdict, GiveUp) == (len(inside) > allowed)
    if isinstance(verdict, GiveUp):
        assert str(len(inside)) in verdict.reason


def test_kinds() -> None:
    wants = {(kind, failed): kind.wants_restart(failed=failed) for kind in RestartKind for failed in (True, False)}

    assert {key for key, value in wants.items() if value} == {
        (RestartKind.PERMANENT, True),
        (RestartKind.PERMANENT, False),
        (RestartKind.TRANSIENT, True),
    }
