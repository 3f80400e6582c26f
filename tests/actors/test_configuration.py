"""TOML to values: exact types, all mistakes at once, each with its line and key path."""

from collections.abc import Mapping
from enum import StrEnum

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.configuration import ScenarioError, line_of, read_toml, register_tagged_union, structured


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Circle:
    radius: float = attrs.field(metadata={"above": 0})


@attrs.frozen
class Square:
    side: int


Shape = Circle | Square
register_tagged_union(Shape, {"circle": Circle, "square": Square})


@attrs.frozen
class Engine:
    gpu: int = attrs.field(default=0, metadata={"min": 0, "max": 7})
    weight: float = 1.0
    name: str = attrs.field(default="a", metadata={"pattern": "[a-z]+", "means": "lower-case letters"})
    colour: Colour = Colour.RED
    on: bool = True


@attrs.frozen
class Root:
    engines: tuple[Engine, ...] = ()
    size: tuple[int, int] = (1, 2)
    named: Mapping[str, Engine] = attrs.field(factory=dict)
    shape: Shape | None = None
    limit: float | None = None


def problems_of(text: str) -> list[str]:
    value, problems = structured(read_toml(text.encode()), Root, source=text.encode(), file="s.toml")
    assert (value is None) == bool(problems)
    return [str(problem) for problem in problems]


def test_a_right_file_becomes_a_value() -> None:
    text = 'size = [3, 4]\nlimit = 2\n[[engines]]\ngpu = 3\nweight = 2\ncolour = "blue"\n'
    text += '[shape]\nkind = "circle"\nradius = 1\n'

    value, problems = structured(read_toml(text.encode()), Root)

    assert problems == []
    assert value == Root((Engine(3, 2.0, "a", Colour.BLUE),), (3, 4), shape=Circle(1.0), limit=2.0)
    assert value is not None
    assert isinstance(value.engines[0].weight, float)


def test_three_mistakes_in_one_table_give_three_lines() -> None:
    text = '[[engines]]\ngpu = -1\nweight = true\ncolr = "red"\n'

    assert problems_of(text) == [
        "s.toml:2: 'gpu' must be >= 0: -1 @ $.engines[0].gpu",
        "s.toml:3: 'weight' must be a number: True @ $.engines[0].weight",
        "s.toml:4: unknown key 'colr', did you mean 'colour'? @ $.engines[0].colr",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[engines]]\ngpu = "9"', "s.toml:2: 'gpu' must be an integer: '9' @ $.engines[0].gpu"),
        ("[[engines]]\ngpu = true", "s.toml:2: 'gpu' must be an integer: True @ $.engines[0].gpu"),
        ("[[engines]]\nweight = nan", "s.toml:2: 'weight' must be a finite number: nan @ $.engines[0].weight"),
        ("[[engines]]\nweight = inf", "s.toml:2: 'weight' must be a finite number: inf @ $.engines[0].weight"),
        (
            "[[engines]]\ngpu = 99999999999999999999",
            "s.toml:2: 'gpu' is too large: 99999999999999999999 @ $.engines[0].gpu",
        ),
        ("[[engines]]\ngpu = 9", "s.toml:2: 'gpu' must be <= 7: 9 @ $.engines[0].gpu"),
        ("[[engines]]\non = 1", "s.toml:2: 'on' must be true or false: 1 @ $.engines[0].on"),
        ("[[engines]]\nname = 5", "s.toml:2: 'name' must be a text: 5 @ $.engines[0].name"),
        ('[[engines]]\nname = "A"', "s.toml:2: 'name' must be lower-case letters: 'A' @ $.engines[0].name"),
        (
            '[[engines]]\ncolour = "bleu"',
            "s.toml:2: 'colour' must be one of red, blue: 'bleu', did you mean 'blue'? @ $.engines[0].colour",
        ),
        ('engines = "abc"', "s.toml:1: 'engines' must be a list: 'abc' @ $.engines"),
        ("size = [1]", "s.toml:1: 'size' must be a list of 2: [1] @ $.size"),
        ('size = [1, "x"]', "s.toml:1: 'size[1]' must be an integer: 'x' @ $.size[1]"),
        ("[named.b]\ngpu = 8", "s.toml:2: 'gpu' must be <= 7: 8 @ $.named.b.gpu"),
        ("[shape]\nside = 1", "s.toml:1: 'shape' needs kind = one of circle, square @ $.shape"),
        (
            '[shape]\nkind = "cirle"',
            "s.toml:1: 'shape' needs kind = one of circle, square: 'cirle', did you mean 'circle'? @ $.shape",
        ),
        ('[shape]\nkind = "circle"\nradius = 0', "s.toml:3: 'radius' must be > 0: 0.0 @ $.shape.radius"),
        ('[shape]\nkind = "square"', "s.toml:1: missing key 'side' @ $.shape"),
    ],
)
def test_each_mistake_says_what_where_and_how_to_mend_it(text: str, expected: str) -> None:
    assert problems_of(text) == [expected]


def test_broken_toml_keeps_the_line() -> None:
    with pytest.raises(ScenarioError, match=r"s\.toml:2: not TOML: .*@ \$"):
        read_toml(b"a = 1\nb = = 2\n", "s.toml")


def test_bytes_that_are_not_utf8_are_one_problem() -> None:
    with pytest.raises(ScenarioError, match="not UTF-8 at byte 4"):
        read_toml(b"a = \xff")


def test_lines_of_repeated_and_nested_tables() -> None:
    lines = ["[[a]]", "x = 1", "[[a.b]]", "y = 1", "[[a]]", "x = 2", "[[a.b]]", "y = 2", "[c]", "d.e = 3"]

    assert line_of(lines, "$.a[1].x") == 6
    assert line_of(lines, "$.a[1].b[0].y") == 8
    assert line_of(lines, "$.c.d.e") == 10
    assert line_of(lines, "$.a[0].zzz") == 1
    assert line_of(lines, "$.none") is None


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["engines", "size", "named", "shape", "limit", "x"]), json_like))
def test_no_data_whatever_raises(data: dict[str, object]) -> None:
    value, problems = structured(data, Root)

    assert (value is None) == bool(problems)
    assert all(problem.path.startswith("$") and problem.message for problem in problems)
