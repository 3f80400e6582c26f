"""Evaluation of the real pipeline over the sample, and of scripted outcomes."""

import json
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio
from click.testing import CliRunner

from actors.assistant_library import AssistantLibrary
from actors.cli.evaluate import evaluate
from actors.configuration import ScenarioError
from actors.evaluation import ABLATIONS, ReadLibrary, UnderTest, ablated, chosen, evaluated
from actors.evaluation_report import Graded
from actors.question_set import load_question_set
from actors.sql_configuration import parse_sql_config
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.evaluate import Outcome, QuestionKind, QuestionSet, SetQuestion, Table, Verdict
from sqlassist.language import folded
from sqlassist.messages import Stage
from sqlassist.ports import PipelineSettings
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_duckdb
from sqlassist.verified import Status, VerifiedQuery
from tests.kit.pipeline_world import ALPHA, ScriptedModel, duckdb_folder, open_world

REVENUE = SetQuestion(
    "revenue", QuestionKind.METRIC, ("total revenue", "总收入"), ("SELECT SUM(amount) AS x FROM payments",)
)
LEVELS = SetQuestion(
    "median", QuestionKind.SQL, ("median level of the players?",), ("SELECT MEDIAN(level) AS m FROM players",)
)
DROP = SetQuestion("drop", QuestionKind.REFUSE, ("drop table payments",), reason="it writes")
SMALL_SET = """
today = "2026-06-30"
tenant = "tenant1"
[[questions]]
id = "revenue"
kind = "metric"
wordings = ["total revenue", "总收入"]
answers = ["SELECT SUM(amount) AS x FROM payments"]
[[questions]]
id = "wrong-on-purpose"
kind = "metric"
wordings = ["number of servers"]
answers = ["SELECT COUNT(*) + 1 AS x FROM servers"]
[[questions]]
id = "drop"
kind = "refuse"
wordings = ["drop table payments"]
reason = "it writes"
"""


@pytest.fixture
def library(tmp_path: Path) -> Iterator[AssistantLibrary]:
    opened = AssistantLibrary.opened(tmp_path / "library")
    yield opened
    opened.close()


async def test_the_pipeline_is_graded_without_a_model() -> None:
    async with open_world() as world:
        under_test = UnderTest(world.ports, ALPHA, None)
        questions = (REVENUE, LEVELS, DROP)
        gold = await under_test.gold(questions)
        found = await evaluated(questions, under_test.ask(PipelineSettings()), gold, repeats=2, parallel=3)

    verdicts = [(one.run, one.question.id, one.wording, one.verdict) for one in found]
    assert verdicts == [
        (run, *rest)
        for run in (0, 1)
        for rest in (
            ("revenue", 0, Verdict.RIGHT),
            ("revenue", 1, Verdict.RIGHT),
            ("median", 0, Verdict.DECLINED),
            ("drop", 0, Verdict.RIGHT),
        )
    ]
    assert found[2].outcome.needs_model


async def test_a_model_is_graded_by_its_rows(library: AssistantLibrary) -> None:
    model = ScriptedModel(["SELECT MEDIAN(level) AS m FROM players"])
    async with open_world(model) as world:
        under_test = UnderTest(world.ports, ALPHA, library)
        gold = await under_test.gold([LEVELS])
        (one,) = await evaluated([LEVELS], under_test.ask(PipelineSettings()), gold)

    assert one.verdict is Verdict.RIGHT
    assert one.outcome.tokens["output"] > 0
    assert library.store.fallbacks(1) == (), "an evaluation leaves no trace"


async def test_a_question_is_not_found_in_retrieval_while_it_is_asked(library: AssistantLibrary) -> None:
    async with open_world(ScriptedModel(["SELECT 1 AS x"])) as world:
        (subject,) = world.ports.subjects(ALPHA)
        for question, sql in (("Median level of the players", LEVELS.answers[0]), ("level of a player", "SELECT 2")):
            library.store.add(
                VerifiedQuery(
                    "", ALPHA, question, sql, subject.source, subject.catalog.version, status=Status.APPROVED
                ),
                by="eve",
            )
        hiding = ReadLibrary(library, tuple(map(folded, LEVELS.wordings)))
        showing = ReadLibrary(library, None)
        text, today, values = LEVELS.wordings[0], world.ports.today(""), await world.ports.values(ALPHA)

        assert [one.question for one in hiding.examples(ALPHA, text, 4)] == ["level of a player"]
        assert next(one.question for one in showing.examples(ALPHA, text, 4)) == "Median level of the players"
        assert hiding.match(ALPHA, text, (subject,), today, values) is None
        assert showing.match(ALPHA, text, (subject,), today, values) is not None

        under_test = UnderTest(world.ports, ALPHA, library)
        gold = await under_test.gold([LEVELS])
        (removed,) = await evaluated([LEVELS], under_test.ask(PipelineSettings()), gold)
        (left_in,) = await evaluated([LEVELS], under_test.ask(PipelineSettings(), left_in=True), gold)

    assert removed.verdict is Verdict.WRONG
    assert left_in.verdict is Verdict.RIGHT
    assert left_in.outcome.route == "verified_query"
    assert all(one.use_count == 0 for one in library.store.queries())


async def test_gold_that_does_not_fit_the_data_is_told_at_once() -> None:
    bad = attrs.evolve(REVENUE, answers=("SELECT nothing FROM payments", "SELECT 1 AS x", "DROP TABLE payments"))
    async with open_world() as world:
        with pytest.raises(ScenarioError) as caught:
            await UnderTest(world.ports, ALPHA, None).gold([bad, LEVELS])

    assert [problem.path for problem in caught.value.problems] == ["revenue.answers[0]", "revenue.answers[2]"]


async def test_scripted_outcomes_keep_their_order(autojump_clock: trio.abc.Clock) -> None:
    async def ask(question: SetQuestion, wording: str) -> Outcome:
        await trio.sleep(1 if wording == "total revenue" else 0)
        return Outcome(Stage.ANSWER, table=Table(1, ((1.0,),)))

    with trio.fail_after(60):
        found = await evaluated([REVENUE], ask, {"revenue": [Table(1, ((1.0,),))]}, parallel=2)

    assert [one.wording for one in found] == [0, 1]
    assert {one.verdict for one in found} == {Verdict.RIGHT}


@pytest.mark.parametrize("name", [name for name in ABLATIONS if name != "left-in"])
def test_each_ablation_changes_one_setting(name: str) -> None:
    base = PipelineSettings()
    one, other = attrs.asdict(base), attrs.asdict(ablated(base, name))

    changed = [key for key in one["models"] if one["models"][key] != other["models"][key]]
    changed += [key for key in one if key != "models" and one[key] != other[key]]
    assert len(changed) == 1


def test_kinds() -> None:
    questions = QuestionSet("2026-06-30", (REVENUE, LEVELS, DROP))

    assert chosen(questions, []) == (REVENUE, LEVELS, DROP)
    assert chosen(questions, ["sql", "refuse"]) == (LEVELS, DROP)
    with pytest.raises(ScenarioError, match="no question of kind clarify"):
        chosen(questions, ["clarify"])


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    folder = duckdb_folder()
    (tmp_path / "sql.toml").write_text(sample_config(Dialect.DUCKDB, f'folder = "{folder}"', tenants=2))
    path = tmp_path / "assistant.toml"
    path.write_text('[sql]\nfile = "sql.toml"\n')
    (tmp_path / "set.toml").write_text(SMALL_SET)
    return tmp_path


def test_the_command(configured: Path) -> None:
    arguments = [str(configured / "set.toml"), "--config", str(configured / "assistant.toml")]
    arguments += ["--ablate", "metric", "--compare", str(configured / "assistant.toml")]
    arguments += ["--json", str(configured / "out.json"), "--repeats", "2"]

    done = CliRunner().invoke(evaluate, arguments)

    assert done.exit_code == 0, done.output
    assert "wrong: wrong-on-purpose: number of servers" in done.output
    assert "…" not in done.output, "tables fit 80 characters"
    data = json.loads((configured / "out.json").read_text())
    assert data["summaries"]["as configured"]["first_wording"]["all"]["right"] == 4
    assert data["summaries"]["ablated: metric"]["first_wording"]["metric"]["right"] == 0
    assert "no difference" in data["comparisons"]["with assistant.toml"]["words"]
    assert len(data["asked"]["as configured"]) == 8
    assert not (configured / "assistant").exists(), "an evaluation leaves no state"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.toml"], "cannot be read"),
        (["set.toml", "--tenant", "nobody"], "has no database"),
        (["set.toml", "set.toml"], "has a question 'drop' too"),
        (["set.toml", "--kind", "sql"], "no question of kind sql"),
        (["set.toml", "--compare", "nowhere.toml"], "cannot be read"),
    ],
)
def test_mistakes_are_one_line_each(
    configured: Path, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(configured)

    done = CliRunner().invoke(evaluate, [*arguments, "--config", "assistant.toml"])

    assert done.exit_code == 2, done.output
    assert told in done.output
    assert "Traceback" not in done.output


@pytest.fixture(scope="module")
def sample_of_the_sets(tmp_path_factory: pytest.TempPathFactory) -> SqlConfig:
    """The data that the shipped sets are about."""
    folder = tmp_path_factory.mktemp("sample")
    load_duckdb(folder, make_sample(20_000, tenants=3, seed=1), 3)
    return parse_sql_config(sample_config(Dialect.DUCKDB, f'folder = "{folder}"').encode(), "sql.toml")


def test_without_any_model_most_metric_questions_are_right_and_hardly_any_wrong(sample_of_the_sets: SqlConfig) -> None:
    """The promise: of 200 distinct questions, 60 % right, at most 2 wrong. All wordings: `corral evaluate`."""
    path = Path(__file__).parents[2] / "scenarios" / "questions" / "sample-metric.toml"
    questions = [attrs.evolve(one, wordings=one.wordings[:1]) for one in load_question_set(path).questions]

    async def graded() -> tuple[Graded, ...]:
        async with open_world(config=sample_of_the_sets) as world:
            under_test = UnderTest(world.ports, ALPHA, None)
            gold = await under_test.gold(questions)
            return await evaluated(questions, under_test.ask(PipelineSettings()), gold)

    found = trio.run(graded)
    verdicts = [one.verdict for one in found]

    assert len(verdicts) == 200
    assert verdicts.count(Verdict.WRONG) <= 2, [one.question.id for one in found if one.verdict is Verdict.WRONG]
    assert verdicts.count(Verdict.RIGHT) >= 120


def test_questions_of_other_kinds_get_no_wrong_rows(sample_of_the_sets: SqlConfig) -> None:
    path = Path(__file__).parents[2] / "scenarios" / "questions" / "sample-other.toml"
    questions = [attrs.evolve(one, wordings=one.wordings[:1]) for one in load_question_set(path).questions]

    async def graded() -> tuple[Graded, ...]:
        async with open_world(config=sample_of_the_sets) as world:
            under_test = UnderTest(world.ports, ALPHA, None)
            gold = await under_test.gold(questions)
            return await evaluated(questions, under_test.ask(PipelineSettings()), gold)

    found = trio.run(graded)

    assert [one.question.id for one in found if one.verdict is Verdict.WRONG] == []
    refused = [one for one in found if one.question.kind is QuestionKind.REFUSE]
    assert all(one.outcome.table is None for one in refused)
