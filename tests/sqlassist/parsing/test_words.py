"""The tables of general words: each phrase means one thing, and none is a word of the sample or of the clinic."""

from collections import defaultdict

import pytest

from sqlassist.parsing import words_en, words_zh
from sqlassist.parsing.items import Kind
from sqlassist.parsing.numbers import han_number, number_at
from sqlassist.parsing.spelling import corrected, is_one_slip
from sqlassist.parsing.tokens import normalised, singular, tokens_of, words_of
from sqlassist.semantic import SemanticLayer
from tests.kit.questions import clinic, sample

_OF_TWO_KINDS = {"什么", "对", "以下"}
"""Both senses are tried; `以下` is asked back."""


def _phrases() -> dict[str, set[tuple[Kind, str]]]:
    found: dict[str, set[tuple[Kind, str]]] = defaultdict(set)
    for table in (words_en.PHRASES, words_zh.PHRASES):
        for key, text in table.items():
            for phrase in text.split("|"):
                if phrase.strip():
                    found[" ".join(phrase.split())].add(key)
    return found


def test_each_phrase_means_one_thing() -> None:
    assert {phrase for phrase, senses in _phrases().items() if len(senses) > 1} == _OF_TWO_KINDS


@pytest.mark.parametrize("layer", [sample()[0], clinic()[0]], ids=["sample", "clinic"])
def test_no_general_word_belongs_to_a_layer(layer: SemanticLayer) -> None:
    named = [*(one.names for one in layer.metrics.values()), *(one.names for one in layer.dimensions.values())]
    named += [names for one in layer.dimensions.values() for names in one.values.values()]
    own = {words_of(phrase) for names in named for phrase in names.every}

    assert not own & {words_of(phrase) for phrase in _phrases()}


@pytest.mark.parametrize(
    ("text", "number"),
    [("两百", 200), ("十二", 12), ("三十", 30), ("一万二千", 12000), ("15", 15), ("一百零五", 105)],
)
def test_chinese_numbers(text: str, number: int) -> None:
    assert han_number(text) == number


@pytest.mark.parametrize(
    ("text", "number", "is_percent"),
    [
        ("1,000", 1000, False),
        ("2k", 2000, False),
        ("1.5万", 15000, False),
        ("twenty five", 25, False),
        ("5 %", 5, True),
        ("百分之五", 5, True),
        ("三十", 30, False),
    ],
)
def test_numbers(text: str, number: float, is_percent: bool) -> None:
    tokens = tokens_of(text)

    assert number_at(tokens, 0) == (len(tokens), number, is_percent)


@pytest.mark.parametrize(
    ("word", "other", "is_slip"),
    [
        ("revnue", "revenue", True),
        ("revenuee", "revenue", True),
        ("reveune", "revenue", True),
        ("rewenue", "revenue", True),
        ("played", "player", False),
        ("revenue", "revenue", False),
        ("revnu", "revenue", False),
    ],
)
def test_one_slip(word: str, other: str, is_slip: bool) -> None:
    assert is_one_slip(word, other) is is_slip


def test_a_slip_near_two_words_is_left() -> None:
    assert corrected("the retentoin", ["retentoin"], frozenset({"retention", "payments"})) == "the retention"
    assert corrected("the xetention", ["xetention"], frozenset({"retention", "detention"})) is None


def test_tokens() -> None:
    assert [token.text for token in tokens_of(normalised("What’s S003’s 1,000 收入？"))] == (
        ["what", "'s", "s", "003", "'s", "1,000", "收", "入", "?"]
    )
    assert singular("categories") == singular("category")
    assert singular("us") == "us"
