"""The benches of the pool, of knees and of the client in short, on processes: counts, never times."""

import json
from collections.abc import Sequence
from random import Random

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.bench import knee as knee_bench
from actors.bench.canned import HEAD, events_for
from actors.bench.client import compare as compare_clients
from actors.bench.client import encoded, prompt_for, request_for
from actors.bench.knee import A100, CURVES, STEEP, KnownCurve, settle
from actors.bench.pool import measure_loss, measure_throughput
from actors.rehearsal.engine.blind import filled_reply
from actors.rehearsal.engine.latency import LatencyModel
from actors.rehearsal.engine.options import RehearsalOptions, problems_in
from inference.chunked import ChunkedReader
from inference.reply import ReplyReader
from inference.wire import ImageUrls

QUICK = ("--blind", "--fill", "--ttft-ms", "5", "--tpot-ms", "1", "--slots", "50")


def test_phones_are_spread_evenly_and_nothing_is_lost() -> None:
    found = trio.run(lambda: measure_throughput(6, 2, 1.0, warm_up_seconds=0.5, arguments=QUICK))

    assert found["lost"] == 0
    assert found["requests"] > 0
    assert found["output_tokens_mean"] == 64
    assert found["possible_requests_per_second"] > 0


@pytest.mark.parametrize("how", ["kill", "drain"])
def test_nothing_is_lost_and_only_the_phones_of_the_engine_that_goes_move(how: str) -> None:
    found = trio.run(lambda: measure_loss(how, 6, 3, 3.0, arguments=QUICK))

    assert (found["lost"], found["first_error"]) == (0, "")
    assert found["homed_at_it"] == 2
    assert found["moved"] == 2
    assert found["moved_from_others"] == 0
    assert how == "kill" or found["retried"] == 0


def test_the_known_curves_have_the_knees_that_they_are_known_for() -> None:
    assert [curve.knee for curve in CURVES] == [50, 11, 5]


@given(st.integers(2, 60), st.floats(1.0, 50.0), st.floats(0.1, 100.0))
def test_a_knee_is_the_last_within_the_bound(most: int, low: float, rise: float) -> None:
    curve = KnownCurve("any", ((1, low), (most, low + rise)), most)

    assert curve.at(curve.knee) <= 1.25 * low + 1e-6
    assert curve.knee == most or curve.at(curve.knee + 1) > 1.25 * low


def verdict_of(limits: Sequence[int], curve: KnownCurve) -> dict[str, object]:
    return knee_bench.verdict_of([(float(second), limit) for second, limit in enumerate(limits)], curve)


def test_a_limit_counts_as_settled_while_it_stays_near_the_knee() -> None:
    steady = [48, 50, 52, 49, 50, 51, 50, 50, 50, 51]
    held, astray = verdict_of([1, 2, 64, *steady], A100), verdict_of([1, 2, 64, *steady[1:], 60], A100)

    assert (held["met"], held["settled_after_seconds"]) == (True, 2.0)
    assert (astray["met"], astray["limits_held"]) == (False, "49 to 60")
    assert verdict_of([4, 6, 5, 4, 6, 5, 5], STEEP)["met"] is True


def test_an_engine_s_curve_changes_under_load_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knee_bench, "WATCH_SECONDS", 0.5)
    quick = KnownCurve("quick", ((1, 0.1), (4, 0.2)), 4)
    found = trio.run(lambda: settle(quick, 1.0, then=attrs.evolve(quick, name="slower", points=((1, 0.2), (4, 0.3)))))

    assert found["lost"] == 0
    assert found["knee"] == 2
    assert all(1 <= limit <= 4 for _, limit in found["trace"])


def test_a_change_of_latency_must_be_a_curve_too() -> None:
    options = RehearsalOptions(changed=LatencyModel(curve=((5, 0.1), (1, 0.1))))

    assert problems_in(options) == (
        "--change-curve must be RUNNING:MS,RUNNING:MS,... with rising numbers of running requests",
    )


@given(st.integers(1, 300), st.integers())
def test_a_filled_answer_has_exactly_as_many_tokens_as_it_may(most: int, seed: int) -> None:
    assert len(filled_reply(Random(seed), most)) == most


def test_the_canned_answer_is_one_that_our_client_understands() -> None:
    chunks, reader = ChunkedReader(), ReplyReader("e")
    for piece in events_for(5):
        reader.feed(chunks.feed(piece))

    assert chunks.done
    assert reader.result().text == "T447" * 5
    assert reader.result().usage.output_tokens == 5
    assert HEAD.endswith(b"\r\n\r\n")


def test_pool_and_bare_loop_are_both_measured_with_the_same_bytes() -> None:
    image = encoded(1)
    images = [attrs.evolve(image, sha256=f"{n:064x}") for n in range(16)]
    found = trio.run(lambda: compare_clients(images, 16, 2))
    body = json.loads(request_for(prompt_for(images[3], 3), ImageUrls()).body)

    assert len(found) == 2
    assert all(one.bare > 0 and one.pool > 0 for one in found)
    assert 60_000 < len(image.jpeg) < 140_000
    assert body["max_tokens"] == 32
