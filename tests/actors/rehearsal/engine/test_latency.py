import pytest

from actors.rehearsal.engine.latency import LatencyModel


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
