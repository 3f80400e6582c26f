"""Files of questions: every mistake at once, each with its line."""

from pathlib import Path

import pytest

from actors.configuration import ScenarioError
from actors.question_set import load_question_set, parse_question_set
from sqlassist.evaluate import QuestionKind

GOOD = """
today = "2026-06-30"
tenant = "tenant1"

[[questions]]
id = "one"
kind = "metric"
wordings = ["revenue", "收入"]
answers = ["SELECT 1", "SELECT 2"]
answers_mysql = ["SELECT 3", "SELECT 4"]

[[questions]]
id = "two"
kind = "refuse"
wordings = ["drop it"]
reason = "it writes"
"""


def test_a_good_set() -> None:
    found = parse_question_set(GOOD.encode(), "set.toml")

    assert [one.kind for one in found.questions] == [QuestionKind.METRIC, QuestionKind.REFUSE]
    assert found.questions[0].gold(is_mysql_like=True) == ("SELECT 3", "SELECT 4")
    assert found.questions[0].gold(is_mysql_like=False) == ("SELECT 1", "SELECT 2")


def test_every_mistake_at_once() -> None:
    text = """
today = "2026-06-31"
[[questions]]
id = "one"
kind = "metric"
wordings = ["revenue", "Revenue?", " "]
[[questions]]
id = "one"
kind = "refuse"
wordings = []
answers = ["SELECT 1"]
[[questions]]
id = "three"
kind = "sql"
wordings = ["x"]
answers = ["SELECT 1"]
answers_mysql = ["SELECT 1", "SELECT 2"]
"""
    with pytest.raises(ScenarioError) as caught:
        parse_question_set(text.encode(), "set.toml")

    told = [str(problem) for problem in caught.value.problems]
    expected = [
        "set.toml:2: '2026-06-31' is no day @ $.today",
        "2 questions are called 'one' @ $.questions[0].id",
        "'Revenue?' is there twice @ $.questions[0].wordings[1]",
        "a wording is empty @ $.questions[0].wordings[2]",
        "a question of kind metric has answers @ $.questions[0].answers",
        "a question has at least one wording @ $.questions[1].wordings",
        "a question of kind refuse has no answers @ $.questions[1].answers",
        "say why it is refused @ $.questions[1].reason",
        "has 2 answers, 'answers' has 1 @ $.questions[2].answers_mysql",
    ]
    for text in expected:
        assert any(text in one for one in told), (text, told)


@pytest.mark.parametrize("name", ["sample-metric", "sample-other"])
def test_shipped_sets_are_sound(name: str) -> None:
    path = Path(__file__).parents[2] / "scenarios" / "questions" / f"{name}.toml"

    found = load_question_set(path)

    assert all(len(one.wordings) == 3 for one in found.questions)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_question_set(tmp_path / "none.toml")
