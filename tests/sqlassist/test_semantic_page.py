"""The page's example is a layer that can be read."""

import re
from pathlib import Path

from actors.configuration import read_toml, structured
from sqlassist.semantic import SemanticLayer

PAGE = Path(__file__).parents[2] / "docs" / "semantic-layer.md"


def test_the_example_of_the_page_is_a_layer() -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert example is not None

    layer, problems = structured(read_toml(example.group(1).encode()), SemanticLayer)

    assert problems == []
    assert layer is not None
    assert set(layer.metrics) == {"revenue", "arpu"}
    assert layer.dimensions["server"].number_format.format(3) == "S003"
