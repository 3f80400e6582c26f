"""A question that leans on the one before it keeps what it does not say."""

import pytest

from sqlassist.understanding import NotUnderstood, Understood
from tests.kit.questions import asked, in_words, query_of

MAY = "2026-05-01..2026-05-31"


@pytest.mark.parametrize(
    ("before", "question", "meaning"),
    [
        ("revenue by server in May", "and last week?", "revenue; by server; 2026-06-08..2026-06-14"),
        ("revenue by server in May", "what about iOS?", f"revenue; by server; channel = iOS; {MAY}"),
        ("iOS revenue in May", "and Android?", f"revenue; channel = Android; {MAY}"),
        ("revenue by server in May", "by channel?", f"revenue; by channel; {MAY}"),
        ("revenue by server in May", "also by channel", f"revenue; by server and channel; {MAY}"),
        ("revenue by server in May", "and the payers?", f"payers; by server; {MAY}"),
        ("revenue by server in May", "top 3 only", f"revenue; by server; {MAY}; top 3"),
        ("revenue in May", "compared with April?", f"revenue; {MAY}; compared with 2026-04-01..2026-04-30"),
        ("which server had the highest revenue in May", "and the lowest?", f"revenue; by server; {MAY}; bottom 1"),
        (
            "revenue in May vs April",
            "and in March?",
            "revenue; 2026-03-01..2026-03-31; compared with 2026-02-01..2026-02-28",
        ),
        ("revenue in May", "growth?", f"revenue; {MAY}; compared with 2026-04-01..2026-04-30"),
        ("5月收入", "环比呢", f"revenue; {MAY}; compared with 2026-04-01..2026-04-30"),
        ("5月收入", "同比呢", f"revenue; {MAY}; compared with 2025-05-01..2025-05-31"),
        ("revenue by server in May", "daily", f"revenue; by day; {MAY}"),
        ("revenue by channel in May", "as a share", f"revenue; share of the total; by channel; {MAY}"),
        ("iOS 5月收入", "那上周呢？", "revenue; channel = iOS; 2026-06-08..2026-06-14"),
        ("iOS 5月收入", "安卓呢", f"revenue; channel = Android; {MAY}"),
        ("iOS 5月收入", "付费人数呢", f"payers; channel = iOS; {MAY}"),
        ("iOS 5月收入", "按服务器", f"revenue; by server; channel = iOS; {MAY}"),
    ],
)
def test_follow_ups(before: str, question: str, meaning: str) -> None:
    previous = query_of(before)

    found = asked(question, previous=previous)

    assert isinstance(found, Understood), found
    assert found.is_follow_up
    assert in_words(question, previous=previous) == meaning


@pytest.mark.parametrize("question", ["and last week?", "那上周呢?", "by channel?", "top 3 only"])
def test_alone_they_are_not_understood(question: str) -> None:
    assert isinstance(asked(question), NotUnderstood)


def test_a_whole_question_leaves_the_one_before_behind() -> None:
    previous = query_of("iOS revenue by server in May")

    found = asked("How many sessions were there yesterday?", previous=previous)

    assert isinstance(found, Understood)
    assert not found.is_follow_up
    assert found.query.filters == ()


def test_a_follow_up_with_an_unknown_word_is_not_understood() -> None:
    assert isinstance(asked("and for premium ones?", previous=query_of("revenue in May")), NotUnderstood)
