"""The document for a model: of the right size, complete where it can be, and cut from the least important end."""

import attrs
import pytest

from sqlassist.document import MAX_BYTES, document_for
from sqlassist.semantic import Metric, Names, SemanticLayer
from tests.kit.questions import clinic, sample


def test_the_samples_document_has_the_size_that_models_read_well() -> None:
    layer, _ = sample()

    text = document_for(layer)

    assert 4 << 10 <= len(text.encode()) <= 8 << 10
    for name in (*layer.metrics, *layer.dimensions, *layer.times, *layer.references):
        assert name in text
    assert "收入" in text


@pytest.mark.parametrize("most", [8192, 6000, 5000, 4000, 3000, 2000, 1000, 600])
def test_it_is_never_larger_than_it_may_be(most: int) -> None:
    layer, _ = sample()

    text = document_for(layer, most)

    assert len(text.encode()) <= most
    assert not text.endswith("- ")


def test_synonyms_go_before_metrics() -> None:
    layer, _ = sample()

    text = document_for(layer, 5000)

    assert all(f"- {name} = " in text for name in layer.metrics)
    assert "earnings" not in text


def test_a_huge_layer_keeps_its_first_metrics_and_what_all_of_them_need() -> None:
    layer, _ = sample()
    many = {f"metric_{n}": Metric(Names((f"metric {n}",)), "payments", "SUM(amount)", time="day") for n in range(500)}

    text = document_for(attrs.evolve(layer, metrics={**layer.metrics, **many}))

    assert len(text.encode()) <= MAX_BYTES
    assert "- revenue = " in text
    assert "more metrics and dimensions exist than are listed" in text
    assert "payments.player_id = players.player_id" in text, "joins are needed for all that is left"
    assert "payments.paid_at: a DATETIME in UTC" in text
    assert "- region = servers.region" in text


def test_conventions_and_ambiguous_words_are_told() -> None:
    layer, _ = clinic()

    text = document_for(layer)

    assert "weeks begin on sunday" in text
    assert "volume, 规模: visits, billed" in text
    assert "traffic, 人流: visits, billed; take visits" in text


def test_an_empty_layer_is_still_a_document() -> None:
    assert "## Conventions" in document_for(SemanticLayer())
