"""Examples: the likest questions first, in both languages, always the same ones, and none that is to be left out."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.retrieve import Known, Retriever, terms_of

LIBRARY = [
    Known("1", "revenue by server last month", "SELECT 1"),
    Known("2", "how many players quit before level 10", "SELECT 2", ("players who left below level 10",)),
    Known("3", "每台服务器的收入", "SELECT 3", ("各服收入",)),
    Known("4", "玩家流失率", "SELECT 4"),
    Known("5", "refunds of iOS players", "SELECT 5"),
]


def ids(text: str, count: int = 5, **options: Sequence[str]) -> list[str]:
    return [one.id for one in Retriever(LIBRARY).examples(text, count, **options)]


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("last month's revenue for each server", "1"),
        ("which player left below level 12?", "2"),
        ("各服务器收入是多少", "3"),
        ("流失的玩家有多少", "4"),
        ("refund per player on ios", "5"),
    ],
)
def test_the_likest_question_comes_first(text: str, best: str) -> None:
    assert ids(text)[0] == best


def test_what_shares_no_word_is_no_example() -> None:
    assert ids("zzz qqq") == []
    assert ids("") == []
    assert ids("?!") == []
    assert Retriever([]).examples("revenue", 3) == ()
    assert Retriever([Known("1", "?", "SELECT 1")]).examples("revenue", 3) == ()


def test_no_more_than_asked_for() -> None:
    assert len(ids("players server level ios", 2)) == 2
    assert ids("players", 0) == []


def test_a_question_that_is_left_out_is_left_out_in_all_its_wordings() -> None:
    assert "2" in ids("players who left below level 10")
    assert "2" not in ids("players who left below level 10", exclude=["how many players quit before level 10"])
    assert "2" not in ids("how many players quit before level 10", exclude=["players who left below level 10"])


def test_equal_scores_are_ordered_by_id() -> None:
    twins = [Known("b", "revenue today", "SELECT 1"), Known("a", "revenue today", "SELECT 2")]

    found = Retriever(twins).examples("revenue today", 2)

    assert [one.id for one in found] == ["a", "b"]


@given(st.text(max_size=40))
def test_the_same_question_gets_the_same_examples(text: str) -> None:
    assert Retriever(LIBRARY).examples(text, 5) == Retriever(list(LIBRARY)).examples(text, 5)


def test_an_embedding_finds_what_shares_no_word() -> None:
    def embed(text: str) -> list[float]:
        return [1.0, 0.0] if "churn" in text or "流失" in text else [0.0, 1.0]

    found = Retriever(LIBRARY, embed=embed).examples("churn", 1)

    assert [one.id for one in found] == ["4"]


def test_a_reranker_has_the_last_word() -> None:
    def rerank(_: str, texts: Sequence[str]) -> list[float]:
        return [float("refunds" in text) for text in texts]

    found = Retriever(LIBRARY, rerank=rerank).examples("players revenue ios", 2)

    assert found[0].id == "5"
    assert len(found) == 2


def test_terms_of_both_languages() -> None:
    assert terms_of("Players of S003?") == ["player", "of", "s003"]
    assert terms_of("日收入 by day") == ["日", "收", "入", "日收", "收入", "by", "day"]
    assert terms_of("loss") == ["loss"]


def test_building_an_index_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Retriever(LIBRARY).examples("revenue", 1)

    assert capfd.readouterr() == ("", "")
