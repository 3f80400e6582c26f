"""What a tenant may not see does not exist for him: no metric, no dimension, no word, no line of a document."""

import pytest

from actors.sql_configuration import parse_sql_config
from sqlassist.catalog import Dialect
from sqlassist.document import document_for
from sqlassist.sample import sample_config
from sqlassist.scope import layer_for
from sqlassist.semantic import SemanticLayer
from tests.kit.pipeline_world import ALPHA


def seen_without(*hidden: str) -> SemanticLayer:
    text = sample_config(Dialect.DUCKDB, 'folder = "."', tenants=2)
    names = ", ".join(f'"{name}"' for name in hidden)
    text = text.replace(f"[tenants.{ALPHA}]\n", f"[tenants.{ALPHA}]\nhidden = [{names}]\n", 1)
    config = parse_sql_config(text.encode(), "sql.toml")
    (source,) = config.sources_of(ALPHA)
    return layer_for(config.sources[source].semantic, config.catalog(source, ALPHA))


@pytest.mark.parametrize(
    ("hidden", "gone", "left"),
    [
        ("payments.amount", {"revenue", "average_payment", "largest_payment", "arppu"}, {"payments", "payers"}),
        ("payments", {"revenue", "payments", "payers"}, {"active_players", "new_players"}),
    ],
)
def test_metrics_over_a_hidden_column_are_gone_and_so_are_ratios_of_them(
    hidden: str, gone: set[str], left: set[str]
) -> None:
    layer = seen_without(hidden)

    assert not gone & set(layer.metrics)
    assert left <= set(layer.metrics)


@pytest.mark.parametrize(
    ("hidden", "word"), [("payments.amount", "(amount"), ("channels", "channels"), ("players.nickname", "nickname")]
)
def test_no_document_for_a_model_names_what_is_hidden(hidden: str, word: str) -> None:
    assert word not in document_for(seen_without(hidden)).partition("## Metrics")[2]
