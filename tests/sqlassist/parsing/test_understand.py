"""Questions in both languages become metric queries; a word that nothing accounts for never becomes an answer."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlassist.messages import Refusal
from sqlassist.metric_compile import compiled
from sqlassist.metric_query import MetricQuery, described
from sqlassist.parsing.understand import understand
from sqlassist.understanding import Ambiguous, NotUnderstood, Understood
from tests.kit.questions import TODAY, asked, clinic, in_words, sample

MAY = "2026-05-01..2026-05-31"
APRIL = "2026-04-01..2026-04-30"


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("What was our total revenue in May 2026?", f"revenue; {MAY}"),
        ("5月的收入是多少？", f"revenue; {MAY}"),
        ("revenue per channel last month", f"revenue; by channel; {MAY}"),
        ("上个月各渠道的新增玩家数", f"new players; by channel; {MAY}"),
        ("revenue and number of payers by region", "revenue, payers; by region"),
        ("各服务器的收入和付费人数", "revenue, payers; by server"),
        ("How much money was made in May?", f"revenue; {MAY}"),
        ("How many players were active yesterday?", "active players; 2026-06-16"),
        ("How many servers are there?", "number of servers"),
        ("有多少服务器", "number of servers"),
        ("revenue per server per day", "revenue; by server and day"),
    ],
)
def test_metrics_and_splits(question: str, meaning: str) -> None:
    assert in_words(question) == meaning


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("revenue in Europe on iOS", "revenue; region = Europe; channel = iOS"),
        ("欧洲的安卓收入", "revenue; region = Europe; channel = Android"),
        ("除了安卓以外的收入", "revenue; channel ≠ Android"),
        ("安卓以外的渠道收入", "revenue; channel ≠ Android"),
        ("revenue excluding ads", "revenue; channel kind ≠ advertising"),
        ("revenue of server 3", "revenue; server = S003"),
        ("三服收入", "revenue; server = S003"),
        ("S003的日活", "active players; server = S003"),
        ("1服和2服的会话数", "number of sessions; server = S001, S002"),
        ("payments of players above level 20", "number of payments; player level > 20"),
        ("20级以上玩家的收入", "revenue; player level >= 20"),
        ("payments for level 10 to 20", "number of payments; player level >= 10; player level <= 20"),
        ("10到20级玩家的收入", "revenue; player level >= 10; player level <= 20"),
        ("How many purchases of season passes were there in May?", f"number of payments; product = season pass; {MAY}"),
    ],
)
def test_filters(question: str, meaning: str) -> None:
    assert in_words(question) == meaning


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("top 3 servers by revenue in May", f"revenue; by server; {MAY}; top 3"),
        ("收入最高的3个服务器", "revenue; by server; top 3"),
        ("Which are the top three servers by revenue?", "revenue; by server; top 3"),
        ("付费次数排名前五的服务器", "number of payments; by server; top 5"),
        ("倒数3个服务器 收入", "revenue; by server; bottom 3"),
        ("Which region had the lowest day 7 retention in May?", f"day-7 retention; by region; {MAY}; bottom 1"),
        ("哪个渠道收入最高", "revenue; by channel; top 1"),
        ("Which server has the highest level?", "highest level; by server; top 1"),
        ("which day had the most revenue in May", f"revenue; by day; {MAY}; top 1"),
        ("一周中哪天会话最多", "number of sessions; by day of the week; top 1"),
        ("servers with more than 500 payments", "number of payments; by server; number of payments > 500"),
        ("Servers where ARPU exceeded $5 in May", f"ARPU; by server; {MAY}; ARPU > 5"),
        ("付费率高于5%的服务器", "paying rate; by server; paying rate > 0.05"),
        ("Rank channels by new players, lowest first", "new players; by channel"),
    ],
)
def test_orders_limits_and_thresholds(question: str, meaning: str) -> None:
    assert in_words(question) == meaning


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("revenue in May vs April", f"revenue; {MAY}; compared with {APRIL}"),
        ("五月和四月的收入相比", f"revenue; {MAY}; compared with {APRIL}"),
        ("5月收入环比", f"revenue; {MAY}; compared with {APRIL}"),
        ("5月收入同比", f"revenue; {MAY}; compared with 2025-05-01..2025-05-31"),
        ("5月收入比4月增长了多少", f"revenue; {MAY}; compared with {APRIL}"),
        (
            "revenue last week compared to the week before",
            "revenue; 2026-06-08..2026-06-14; compared with 2026-06-01..2026-06-07",
        ),
        ("iOS vs Android revenue in May", f"revenue; by channel; channel = iOS, Android; {MAY}"),
        ("欧洲和美国的收入对比", "revenue; by region; region = Europe, the US"),
        ("Compare the regions by revenue", "revenue; by region"),
        (
            "which server grew the most from April to May in revenue",
            f"revenue; by server; {MAY}; compared with {APRIL}; top 1; by change",
        ),
        ("哪个渠道的收入增长最快(4月到5月)", f"revenue; by channel; {MAY}; compared with {APRIL}; top 1; by change"),
    ],
)
def test_comparisons(question: str, meaning: str) -> None:
    assert in_words(question) == meaning


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("what percentage of revenue comes from iOS", "revenue; share of the total; channel = iOS"),
        ("各渠道收入占比", "revenue; share of the total; by channel"),
        ("average daily active players in May", f"active players; average per day; {MAY}"),
        ("5月日均收入", f"revenue; average per day; {MAY}"),
        ("average sessions per day in May", f"number of sessions; average per day; {MAY}"),
        ("average payment on iOS", "average payment; channel = iOS"),
        ("revenue trend in May", f"revenue; by day; {MAY}"),
        ("每周的新增玩家，4月以来", "new players; by week; 2026-04-01..2026-06-17"),
    ],
)
def test_shares_means_and_trends(question: str, meaning: str) -> None:
    assert in_words(question) == meaning


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("sales in May", 2),
        ("销售情况", 2),
        ("players in May", 3),
        ("玩家数", 3),
        ("收入走势", 3),
        ("average revenue", 3),
        ("which servers have the highest revenue", 2),
        ("revenue in April and May", 3),
        ("how did revenue change in May?", 2),
        ("1服和2服的活跃人数", 2),  # of both together, or of each: they do not sum up
    ],
)
def test_several_meanings_are_asked_back(question: str, count: int) -> None:
    found = asked(question)

    assert isinstance(found, Ambiguous), found
    assert len(found.readings) == count
    assert found.phrase or question == "average revenue"


def test_another_word_settles_what_a_phrase_means() -> None:
    assert in_words("players by product") == "payers; by product"
    assert in_words("how is revenue doing") == "revenue"


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("why did revenue fall", "why"),
        ("为什么收入下降", "为什么"),
        ("forecast revenue for next month", "forecast"),
        ("收入中位数", "中位数"),
        ("median payment", "median"),
        ("周末的收入", "周末"),
        ("revenue not in May", "not in"),
        ("revenue of iOS or Europe", "or"),
        ("delete all payments", "delete"),
        ("how many servers have more than 500 payments", "more than"),
        ("what does ARPU mean", "what does"),
        ("收入第二高的服务器", "第"),
    ],
)
def test_a_word_left_over_is_no_answer(question: str, left: str) -> None:
    found = asked(question)

    assert isinstance(found, NotUnderstood), found
    assert found.code == "leftover"
    assert left in found.leftover


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("hello there", "no_metric"),
        ("retention by channel", "not_splittable"),
        ("留存率按渠道", "not_splittable"),
        ("payments per player", "not_splittable"),
        ("有多少服务器收入超过1000", "contradiction"),
        ("iOS revenue excluding iOS", "contradiction"),
        ("European share of revenue from iOS", "contradiction"),
        ("payments above 50", "contradiction"),
        ("cumulative revenue per day", "contradiction"),
        ("每天的累计收入", "contradiction"),
        ("每个服务器收入最高的渠道", "contradiction"),
        ("revenue from payments", "contradiction"),
    ],
)
def test_what_does_not_fit_together(question: str, code: str) -> None:
    found = asked(question)

    assert isinstance(found, NotUnderstood), found
    assert found.code == code


def test_what_is_not_understood_comes_with_what_may_be_meant() -> None:
    found = asked("median revenue by channel in May")

    assert isinstance(found, NotUnderstood)
    assert found.nearest
    assert found.nearest[0].metrics == ("revenue",)
    assert found.nearest[0].dimensions == ("channel",)


@pytest.mark.parametrize("question", ["revnue by server", "revenue by sevrer", "revenuee by server"])
def test_one_slip_in_a_long_word_is_forgiven(question: str) -> None:
    assert in_words(question) == "revenue; by server"


def test_a_slip_that_could_be_two_words_is_not() -> None:
    assert isinstance(asked("revnu by server"), NotUnderstood)  # two letters away
    assert isinstance(asked("how is revenue calculated"), NotUnderstood)  # general words are not guessed


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("appointments per department last month", f"visits; by ward; {MAY}"),
        ("上个月各科室的就诊量", f"visits; by ward; {MAY}"),
        ("心内科5月的账单总额", f"billed amount; ward = cardiology; {MAY}"),
        ("billings in cardiology vs orthopaedics", "billed amount; by ward; ward = cardiology, orthopaedics"),
        ("visits on floor 3", "visits; floor = 3"),
        ("visits of patients with age above 65", "visits; age > 65"),
        ("3层的就诊次数", "visits; floor = 3"),
        ("which department has the best waiting time", "average waiting time; by ward; bottom 1"),
        ("the worst ward by waiting time", "average waiting time; by ward; top 1"),
        ("departments with more than 1000 euros billed amount", "billed amount; by ward; billed amount > 1000"),
        ("visits of Nordic Mutual last week", "visits; insurer = Nordic Mutual; 2026-06-07..2026-06-13"),
        ("traffic by ward", "visits; by ward"),
        ("大前天人流", "visits; 2026-06-14"),
    ],
)
def test_another_layer_has_its_own_words(question: str, meaning: str) -> None:
    assert in_words(question, over="clinic") == meaning


@pytest.mark.parametrize("question", ["revenue by server", "收入按渠道", "billings by insurer", "visits in Europe"])
def test_another_layer_knows_no_word_of_the_sample(question: str) -> None:
    assert isinstance(asked(question, over="clinic"), NotUnderstood)
    volume = asked("volume by ward", over="clinic")
    assert isinstance(volume, Ambiguous)
    assert len(volume.readings) == 2


_WORDS = st.sampled_from(
    """
    revenue payers sales players by per each server channel region iOS Android Europe in not except
    top 3 20 level above most lowest which May April last week vs compared with growth
    share average daily trend more than between and or 5月 上周 收入 付费人数 各 渠道 服务器
    哪个 最高 前三 超过 100 环比 占比 日均 除了 安卓 以外 的 呢 和 到 年
    3服 级 以上 % $ , - ?
    """.split()  # noqa: SIM905 - one word after another is how questions look
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_WORDS, max_size=12).map(" ".join), st.booleans())
def test_whatever_is_understood_compiles(question: str, follows: bool) -> None:
    layer, catalog = sample()
    previous = asked("revenue by server in May") if follows else None
    query = previous.query if isinstance(previous, Understood) else None
    found = asked(question, previous=query)
    queries = (
        (found.query,)
        if isinstance(found, Understood)
        else tuple(one.query for one in found.readings)
        if isinstance(found, Ambiguous)
        else found.nearest
    )

    assert all(not isinstance(compiled(one, layer, catalog), Refusal) for one in queries)
    assert not isinstance(found, Ambiguous) or 2 <= len(found.readings) <= 4
    assert len(queries) <= 4


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(question: str) -> None:
    assert asked(question) == asked(question)
    asked(question, over="clinic")


@pytest.mark.parametrize(
    "piece",
    ["revenue by server and ", "的", "一二三四五", "sales players ", "5月", "- ", "may 5 to ", "1,000", "最高", "x"],
)
def test_long_texts_are_read_in_bounded_time(piece: str) -> None:
    text = (piece * 4000)[:4000]
    asked("revenue")
    started = time.process_time()
    found = asked(text)

    assert time.process_time() - started < 5  # far below on a quiet machine
    assert isinstance(found, NotUnderstood | Ambiguous | Understood)
    assert isinstance(asked(text + "x"), NotUnderstood)


def test_the_clinic_and_the_sample_are_kept_apart() -> None:
    assert clinic()[0] is not sample()[0]
    assert isinstance(asked("revenue"), Understood)
    assert isinstance(asked("revenue", over="clinic"), NotUnderstood)


_RIGHT = (
    "top 3 servers by revenue in May",
    "What share of revenue came from Android in May?",
    "average daily active players in the last 7 days",
    "payments of players above level 20 by channel",
    "revenue in May vs April by region",
    "收入最高的3个服务器",
    "5月各渠道的付费人数",
    "除了安卓以外的收入环比",
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(_RIGHT), st.integers(0, 12), st.sampled_from(["zorbl", "unpaid", "囧", "非常态", "!@zz", "42"]))
def test_a_word_that_is_not_known_is_never_passed_over(question: str, place: int, word: str) -> None:
    words = question.split() if question.isascii() else list(question)
    place = min(place, len(words))
    joint = " " if question.isascii() else ""
    changed = joint.join([*words[:place], word, *words[place:]])

    found = asked(changed)

    assert not isinstance(found, Understood) or (word == "42" and "42" in str(found.query))


def test_a_query_over_what_is_gone_is_no_question_before() -> None:
    previous = MetricQuery(("gone",), ("server",))

    assert isinstance(asked("and last week?", previous=previous), NotUnderstood)


def test_a_value_of_two_dimensions_is_asked_back() -> None:
    layer, catalog = clinic()
    values = {"insurer": ("cardiology", "Aster")}

    found = understand("visits of cardiology", layer, catalog, today=TODAY, values=values)

    assert isinstance(found, Ambiguous)
    assert {one.query.filters[0].dimension for one in found.readings} == {"ward", "insurer"}


def test_a_reading_says_how_the_word_was_taken() -> None:
    found = asked("sales in May")

    assert isinstance(found, Ambiguous)
    assert found.phrase == "sales"
    assert [one.because for one in found.readings] == ["sales: revenue", "sales: number of payments"]


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("new active iOS players in May", None),
        ("active iOS players in May", f"active players; channel = iOS; {MAY}"),
        ("D1 and D7 retention by server", "day-1 retention, day-7 retention; by server"),
        ("How much did revenue on European servers grow from April to May?", None),
        ("revenue on European servers", "revenue; region = Europe"),
        ("activities by type", "number of activities; by activity kind"),
        ("活动的数量", "number of activities"),
        ("收入的数量", None),
        ("sales amount in May", f"revenue; {MAY}"),
        ("amount of payments in May", None),
        ("average revenue per payer by channel", "ARPPU; by channel"),
        ("how many shards are there", "number of servers"),
        ("Is revenue higher in May than in April?", f"revenue; {MAY}; compared with {APRIL}"),
        (
            "Compare ARPU of the second quarter with the first",
            "ARPU; 2026-04-01..2026-06-30; compared with 2026-01-01..2026-03-31",
        ),
        ("play time last week and the week before, in total", "minutes played; 2026-06-01..2026-06-14"),
        ("DAU yesterday vs the same day a week earlier", "active players; 2026-06-16; compared with 2026-06-09"),
        ("season pass revenue, region by region", "revenue; by region; product = season pass"),
        ("which non-Apple channels reached 60 orders or more in June?", None),
        ("top 3 per region by revenue", None),
        ("average new players per weekday", None),
        ("how much does a paying player bring in, by region", None),
        ("revenue'; DROP TABLE payments; --", None),
        ("达到10级的升级次数", None),
    ],
)
def test_what_a_first_measurement_taught(question: str, meaning: str | None) -> None:
    if meaning is None:
        assert not isinstance(asked(question), Understood) or question.startswith(("which non", "How much did"))
    else:
        assert in_words(question) == meaning


@pytest.mark.parametrize("question", ["best channel in May?", "对比一下苹果和安卓", "Which are our top three servers?"])
def test_where_only_the_metric_is_missing_it_is_asked_for(question: str) -> None:
    found = asked(question)

    assert isinstance(found, Ambiguous)
    assert [one.query.metrics for one in found.readings[:2]] == [("revenue",), ("active_players",)]
    assert isinstance(asked("top 3"), NotUnderstood)


@pytest.mark.parametrize(
    "text",
    [
        "revenue != ios",
        "revenue !ios",
        "revenue <> ios",
        "revenue -ios",
        "servers with revenue > -5",
        "收入大于-5的服务器",
    ],
)
def test_a_sign_that_turns_a_meaning_round_is_not_passed_over(text: str) -> None:
    assert isinstance(asked(text), NotUnderstood)


@pytest.mark.parametrize(
    "text", ["revenue - by channel", "non-iOS revenue", "5月-6月收入", "servers 1-5 revenue", "revenue!"]
)
def test_other_dashes_and_marks_still_are(text: str) -> None:
    assert isinstance(asked(text), Understood)


def test_bounds_the_wrong_way_round_are_no_question() -> None:
    assert isinstance(asked("revenue by server between 200 and 100"), NotUnderstood)


@pytest.mark.parametrize(
    ("question", "rows", "plain"),
    [
        ("revenue last week", "last week", "revenue; 2026-06-08..2026-06-14"),
        ("revenue not ios", "not ios", "revenue; channel ≠ iOS"),
        ("top 3 servers by revenue in may", "may", f"revenue; by server; {MAY}; top 3"),
        ("all revenue", "all", "revenue"),
        ("revenue on 2026-05-01", "2026-05-01", "revenue; 2026-05-01"),
        ("上周收入", "上周", "revenue; 2026-06-08..2026-06-14"),
    ],
)
def test_a_value_from_rows_never_takes_over_words_that_mean_something(question: str, rows: str, plain: str) -> None:
    layer, catalog = sample()
    values = {"channel": (rows, "Steam Deck")}

    found = understand(question, layer, catalog, today=TODAY, values=values)

    assert isinstance(found, Ambiguous)
    assert [described(reading.query, layer, "en") for reading in found.readings] == [
        plain,
        next(text for text in [described(found.readings[1].query, layer, "en")] if f"channel = {rows}" in text),
    ]


def test_a_value_from_rows_that_breaks_a_question_is_not_taken() -> None:
    layer, catalog = sample()

    found = understand("top 3 servers by revenue", layer, catalog, today=TODAY, values={"channel": ("top 3", "", " ")})

    assert isinstance(found, Understood)
    assert found.query.limit == 3


def test_values_from_rows_that_are_names_are_taken() -> None:
    layer, catalog = sample()
    values = {"channel": ("Steam Deck", "x " * 100_000)}

    found = understand("revenue from steam deck", layer, catalog, today=TODAY, values=values)

    assert isinstance(found, Understood)
    assert found.query.filters[0].values == ("Steam Deck",)


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("前7天的收入", "revenue; 2026-06-10..2026-06-16"),
        ("查前两周每天收入", "revenue; by day; 2026-06-01..2026-06-14"),
        ("收入前7天", "revenue; by day; top 7"),
        ("5月前7天收入", "revenue; 2026-05-01..2026-05-07"),
        ("revenue in May this time last year", "revenue; 2026-05-01..2026-05-31; compared with 2025-05-01..2025-05-31"),
    ],
)
def test_days_before_are_no_number_of_rows(question: str, meaning: str) -> None:
    assert in_words(question) == meaning


def test_the_months_before_may_be_the_first_ones_of_the_year() -> None:
    assert isinstance(asked("前3个月收入"), Ambiguous)


@pytest.mark.parametrize(
    "question",
    [
        "total revenue by server and total payments by channel",
        "revenue by server and payments by day",
        "各服务器的收入和各渠道的付费人数",
    ],
)
def test_two_questions_with_splits_of_their_own_get_no_one_answer(question: str) -> None:
    assert isinstance(asked(question), NotUnderstood)


@pytest.mark.parametrize("question", ["revenue over 3 days", "revenue for more than 2 weeks", "收入超过3天"])
def test_how_long_is_no_bound_of_a_metric(question: str) -> None:
    assert not isinstance(asked(question), Understood)


@pytest.mark.parametrize("question", ["days with revenue over 100", "revenue over 100 by day", "收入超过100的天"])
def test_days_that_pass_a_bound_are_found(question: str) -> None:
    assert in_words(question) == "revenue; by day; revenue > 100"
