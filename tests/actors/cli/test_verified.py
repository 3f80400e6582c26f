"""`corral verified`: from a complaint to an answer that can be trusted, and to training data."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli.verified import verified
from runtime.ids import TenantId
from sqlassist.catalog import Dialect
from sqlassist.sample import sample_config
from sqlassist.verified import Status, VerifiedQuery
from sqlassist.verified_store import open_store
from tests.kit.pipeline_world import ALPHA, duckdb_folder

SLOTS = (
    "SELECT SUM(p.amount) AS money FROM payments AS p JOIN servers AS s ON s.server_id = p.server_id"
    " WHERE s.name = :server AND p.day >= :period_start AND p.day < :period_end"
)


class Desk:
    """Runs the command with a configuration of the sample."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = sample_config(Dialect.DUCKDB, f'folder = "{duckdb_folder()}"', tenants=2)
        (folder / "sql.toml").write_text(text)
        (folder / "assistant.toml").write_text('[sql]\nfile = "sql.toml"\n')
        self.state = folder / "assistant"

    def __call__(self, *arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(verified, [*arguments, "--config", str(self.folder / "assistant.toml")])
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.output
        return done

    def lines(self, *arguments: str, code: int = 0) -> list[dict[str, object]]:
        return [json.loads(line) for line in self(*arguments, "--json", code=code).stdout.splitlines()]

    def proposed(self, question: str, sql: str, tenant: TenantId = ALPHA, source: str = "game") -> str:
        store = open_store(self.state)
        query = VerifiedQuery("", tenant, question, sql, source, "", origin="review", asked_by="eve", comment="wrong")
        made = store.add(query, by="eve")
        store.close()
        return made.id


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_review_is_approved_with_slots(desk: Desk) -> None:
    made = desk.proposed("money of S003 in May", "SELECT 1 AS x")
    assert [one["id"] for one in desk.lines("queue")] == [made]
    assert "money of S003 in May" in desk("queue").output

    wrong = desk("approve", made, code=2)
    assert "'may' will mean other days: write a slot" in wrong.output

    arguments = ["--question", "money of {server} in {period}", "--sql", SLOTS, "--parameter", "period=payments.day"]
    desk("correct", made, *arguments, "--note", "slots", "--by", "rita")

    (kept,) = desk.lines("list", "--status", "approved")
    assert (kept["verified_by"], kept["question"]) == ("rita", "money of {server} in {period}")
    assert desk.lines("queue") == []
    assert desk("queue").output == "none\n"
    shown = desk.lines("show", made)[0]
    assert [one["what"] for one in shown["decisions"]] == ["proposed", "approved"]  # type: ignore[attr-defined]
    assert "rita: approved: slots" in desk("show", made).output


def test_every_mistake_of_a_query_is_told(desk: Desk) -> None:
    done = desk(
        "add",
        "--tenant",
        "tenant1",
        "--question",
        "money of {server} yesterday",
        "--wording",
        "money of {guild}",
        "--sql",
        "SELECT 1 AS x",
        code=2,
    )

    assert "has other slots than the question" in done.output
    assert "'yesterday' will mean other days" in done.output
    assert not desk.state.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["add", "--question", "x", "--sql", "SELECT 1 AS x"], "'default' has no database"),
        (["add", "--tenant", "tenant1", "--question", "x", "--sql", "DROP TABLE payments"], "the guard does not take"),
        (["add", "--tenant", "tenant1", "--question", "x"], "give --sql"),
        (["add", "--tenant", "tenant1", "--question", "x", "--sql", "S", "--source", "y"], "has no source 'y'"),
        (["add", "--tenant", "tenant1", "--question", "x", "--sql", "S", "--parameter", "y"], "--parameter is like"),
        (["add", "--tenant", "tenant1", "--question", "x", "--sql-file", "/nowhere/x"], "No such file"),
        (["list"], "there is no folder"),
    ],
)
def test_mistakes_are_clear(desk: Desk, arguments: list[str], told: str) -> None:
    assert told in desk(*arguments, code=2).output


def test_a_wording_that_another_query_has_is_told(desk: Desk) -> None:
    base = ["add", "--tenant", "tenant1", "--question", "best product", "--wording", "top product"]
    desk(*base, "--sql", "SELECT COUNT(*) AS n FROM payments")

    done = desk("add", "--tenant", "tenant1", "--question", "Top product?", "--sql", "SELECT 1 AS n", code=2)

    assert "'top product' is a wording of v-" in done.output
    desk(*base, "--sql", "SELECT 2 AS n")
    assert [one["status"] for one in desk.lines("list")] == ["rejected", "approved"], "the same question is replaced"
    desk("add", "--tenant", "tenant2", "--question", "Top product?", "--sql", "SELECT 1 AS n")


def test_an_unknown_id(desk: Desk) -> None:
    desk.proposed("x", "SELECT 1 AS x")

    for arguments in (["show", "v-0"], ["approve", "v-0"], ["reject", "v-0", "--reason", "no"]):
        assert "there is no query 'v-0'" in desk(*arguments, code=2).output


def test_rejecting(desk: Desk) -> None:
    made = desk.proposed("x", "SELECT 1 AS x")
    desk("reject", made, "--reason", "it is another question")

    (kept,) = desk.lines("list")
    assert (kept["status"], kept["reason"]) == ("rejected", "it is another question")


def test_rechecking_says_what_is_stale(desk: Desk) -> None:
    desk("add", "--tenant", "tenant1", "--question", "how many payers", "--sql", "SELECT COUNT(*) AS n FROM payments")
    assert desk("recheck").exit_code == 0

    store = open_store(desk.state)
    (good,) = store.queries()
    bad = store.add(
        VerifiedQuery("", ALPHA, "y", "SELECT gone FROM payments", "game", "", status=Status.APPROVED), "eve"
    )
    store.close()

    done = desk("recheck", code=1)
    assert f"{bad.id}: the schema has changed: unknown_column" in done.output
    statuses = {one["id"]: one["status"] for one in desk.lines("list")}
    assert statuses == {good.id: "approved", bad.id: "stale"}


def test_frequent_fallbacks_become_proposals(desk: Desk) -> None:
    store = open_store(desk.state)
    for _ in range(3):
        store.fell_back(ALPHA, "who left", "game", "SELECT 1 AS x")
    store.close()

    assert desk.lines("propose", "--at-least", "4") == []
    (made,) = desk.lines("propose")
    assert (made["question"], made["status"], made["origin"]) == ("who left", "proposed", "fallback")
    desk("approve", str(made["id"]))


def test_training_data_leaves_an_evaluation_set_out(desk: Desk) -> None:
    for question in ("how many payers", "best product"):
        desk("add", "--tenant", "tenant1", "--question", question, "--sql", "SELECT COUNT(*) AS n FROM payments")
    (desk.folder / "set.toml").write_text(
        'today = "2026-06-30"\n[[questions]]\nid = "a"\nkind = "metric"\nwordings = ["Best product?"]\n'
        'answers = ["SELECT 1"]\n'
    )
    out = desk.folder / "train.jsonl"

    done = desk("export", str(out), "--tenant", "tenant1", "--exclude", str(desk.folder / "set.toml"))

    assert "1 left out: they are questions of an evaluation set" in done.output
    (chat,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert "how many payers" in chat["messages"][1]["content"]
    assert desk("export", str(out), "--tenant", "tenant2", code=2).output.startswith(
        "Error: there is nothing to export"
    )


def test_texts_of_people_do_not_steer_the_terminal(desk: Desk) -> None:
    made = desk.proposed("x\x1b[31m\ny", "SELECT 1 AS x")

    assert "\x1b" not in desk("queue").output
    assert "\x1b" not in desk("show", made).output


def test_a_state_folder_is_enough_for_looking(desk: Desk) -> None:
    desk.proposed("x", "SELECT 1 AS x")

    done = CliRunner().invoke(verified, ["queue", "--state", str(desk.state)])

    assert done.exit_code == 0
    assert "by eve" in done.output
