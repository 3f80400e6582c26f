import pytest

from actors.rehearsal.engine.latency import LatencyModel
from actors.rehearsal.engine.options import RehearsalOptions, problems_in


@pytest.mark.parametrize(("tokens", "milliseconds"), [(8, 189), (16, 320), (32, 582), (64, 1105), (128, 2152)])
def test_it_gives_the_published_table_at_50_running(tokens: int, milliseconds: int) -> None:
    assert LatencyModel().token_at(tokens, 50) * 1000 == pytest.approx(milliseconds, abs=1.0)


def test_the_time_per_token_grows_with_the_load() -> None:
    model = LatencyModel()

    assert model.per_token(10) == pytest.approx(0.01369)
    assert model.per_token(50) == pytest.approx(0.01636)
    assert model.per_token(1) < model.per_token(10) < model.per_token(30) < model.per_token(50) < model.per_token(90)


def test_what_is_set_overrides_the_curve() -> None:
    assert LatencyModel(0.1, 0.01).token_at(5, 50) == pytest.approx(0.15)
    fixed = LatencyModel(total_seconds=0.3)
    assert fixed.token_at(1, 1) == fixed.token_at(64, 50) == 0.3


def test_a_curve_of_ones_own_is_straight_between_its_points_and_beyond() -> None:
    model = LatencyModel(curve=((1, 0.010), (10, 0.010), (30, 0.050)))

    assert [model.per_token(running) for running in (0, 1, 5, 10, 20, 30, 40)] == pytest.approx(
        [0.010, 0.010, 0.010, 0.010, 0.030, 0.050, 0.070]
    )
    assert LatencyModel(curve=((4, 0.02),)).per_token(50) == 0.02


def test_a_prompt_is_computed_in_chunks() -> None:
    model = LatencyModel(prefill_tokens_per_second=1000.0, chunk_tokens=400)

    assert model.chunks_of(1000) == pytest.approx((0.4, 0.4, 0.2))
    assert model.chunks_of(400) == pytest.approx((0.4,))
    assert model.chunks_of(0) == ()
    assert LatencyModel().chunks_of(1000) == ()
    assert sum(model.chunks_of(123_457)) == pytest.approx(123.457)


@pytest.mark.parametrize(
    ("model", "option"),
    [
        (LatencyModel(curve=()), "--curve"),
        (LatencyModel(curve=((0, 0.1),)), "--curve"),
        (LatencyModel(curve=((2, 0.1), (2, 0.2))), "--curve"),
        (LatencyModel(curve=((1, 0.1),), tpot_seconds=0.1), "--curve"),
        (LatencyModel(prefill_tokens_per_second=0.0), "--prefill-tokens-per-second"),
        (LatencyModel(chunk_tokens=0), "--chunk-tokens"),
    ],
)
def test_options_that_cannot_be(model: LatencyModel, option: str) -> None:
    (problem,) = problems_in(RehearsalOptions(latency=model))

    assert problem.startswith(option)
