"""`corral sql check`: one answer a line, whatever the line is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli.main import corral
from tests.kit.sql import shared

SCHEMAS = """\
{"db": "shop", "tables": {"Items": [["id", "number"], ["name", "text"]], "sales": [["item_id", "number"]]}}
{"db": "zoo", "tables": {"animals": [["id", "number"], ["kind", "text"]]}}
"""
CONFIG = """\
[sources.main]
dialect = "mariadb"
schema = "game"
credentials = {environment = "CORRAL_SQL_"}
limits = {max_rows = 50}

[sources.main.tables.players]
columns = {id = "integer", name = "text"}
filter = {kind = "equality", column = "tenant_id"}

[sources.main.tables.payments]
columns = {id = "integer", amount = "number"}
filter = {kind = "equality", column = "tenant_id"}

[tenants.acme]
keys = {tenant = ["1"]}

[tenants.other]
keys = {tenant = ["2"]}
hidden = ["payments"]
"""


@pytest.fixture
def schemas(tmp_path: Path) -> str:
    path = tmp_path / "schemas.jsonl"
    path.write_text(SCHEMAS, encoding="utf-8")
    return str(path)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "sql.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def run(arguments: Sequence[str], given: str | bytes = "") -> Result:
    return CliRunner().invoke(corral, ["sql", "check", *arguments], input=given)


def answers(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_statement_a_line(schemas: str) -> None:
    good, bad = answers(run(["--schema", schemas, "--db", "shop"], "select name from items\n\nselect nme from items\n"))

    assert good["verdict"] == "pass"
    assert good["sql"] == "SELECT `name` FROM `Items` LIMIT 1000"
    assert good["tables"] == ["Items"]
    assert good["code"] is None
    assert "limit" in good["bounds"]
    assert 0 <= good["ms"] < 1000
    assert bad["verdict"] == "refuse"
    assert (bad["code"], bad["where"], bad["sql"]) == ("unknown_column", "nme", None)
    assert "did you mean 'name'?" in bad["message"]


def test_json_lines_choose_their_database_and_may_hold_line_breaks(schemas: str) -> None:
    lines = [{"sql": "SELECT id\nFROM animals", "db": "zoo"}, {"sql": "SELECT id FROM Items"}]

    first, second = answers(run(["--schema", schemas, "--db", "shop"], "\n".join(json.dumps(x) for x in lines)))

    assert first["sql"] == "SELECT `id` FROM `animals` LIMIT 1000"
    assert second["verdict"] == "pass"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"sql": 3}', "bad_line"),
        (b'{"sql": "SELECT 1", "db": 3}', "bad_line"),
        (b'{"sql": "SELECT 1"', "bad_line"),
        (b"{" * 50_000, "bad_line"),
        (b'{"sql": ' + b"[" * 50_000, "bad_line"),
        (b"\xff\xfe", "bad_line"),
        (b'{"sql": "SELECT 1", "db": "zo"}', "unknown_database"),
        (b'{"sql": "SELECT \\ud800", "db": "zoo"}', "bad_character"),
        (b"x" * 3_000_000, "too_long"),
        (b"DROP TABLE Items", "not_a_query"),
    ],
    ids=range(10),
)
def test_a_bad_line_is_a_refusal_and_the_next_one_is_read(schemas: str, line: bytes, code: str) -> None:
    bad, good = answers(run(["--schema", schemas, "--db", "shop"], line + b"\nSELECT id FROM Items\n"))

    assert (bad["verdict"], bad["code"]) == ("refuse", code)
    assert good["verdict"] == "pass"


def test_a_line_must_say_which_database_where_there_are_several(schemas: str) -> None:
    (answer,) = answers(run(["--schema", schemas], "SELECT 1\n"))

    assert answer["code"] == "unknown_database"
    assert "--db" in answer["message"]


def test_dialect_and_rows_are_options(schemas: str) -> None:
    arguments = ["--schema", schemas, "--db", "shop", "--dialect", "duckdb", "--max-rows", "9"]

    (answer,) = answers(run(arguments, "SELECT name FROM items\n"))

    assert answer["sql"] == 'SELECT "name" FROM "Items" LIMIT 9'


def test_the_rewrite_can_be_shown(schemas: str) -> None:
    (answer,) = answers(run(["--schema", schemas, "--db", "shop", "--diff"], "select id from items\n"))

    assert "+LIMIT 1000" in answer["diff"].splitlines()


def test_a_configuration_says_what_a_tenant_may_name(config: str) -> None:
    given = "SELECT amount FROM payments\nSELECT tenant_id FROM players\n"

    mine = answers(run(["--config", config, "--tenant", "acme"], given))
    other = answers(run(["--config", config, "--tenant", "other"], given))

    assert [line["code"] for line in mine] == [None, "unknown_column"]
    assert [line["code"] for line in other] == ["unknown_table", "unknown_column"]
    assert mine[0]["sql"].endswith("LIMIT 50")
    assert "payments" not in other[0]["message"].replace("'payments'", "", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--schema", "{schemas}", "--config", "{config}"],
        ["--schema", "/nonexistent"],
        ["--schema", "{config}"],
        ["--schema", "{schemas}", "--db", "shup"],
        ["--schema", "{schemas}", "--tenant", "acme"],
        ["--schema", "{schemas}", "--dialect", "oracle"],
        ["--schema", "{schemas}", "--max-rows", "0"],
        ["--config", "{config}"],
        ["--config", "{config}", "--tenant", "acm"],
        ["--config", "{config}", "--tenant", "acme", "--source", "nosuch"],
        ["--config", "{config}", "--tenant", "acme", "--db", "x"],
        ["--config", "/nonexistent", "--tenant", "acme"],
        ["--config", "{schemas}", "--tenant", "acme"],
    ],
)
def test_wrong_options_and_files_end_with_2_and_a_reason(arguments: list[str], schemas: str, config: str) -> None:
    filled = [argument.format(schemas=schemas, config=config) for argument in arguments]

    result = run(filled, "SELECT 1\n")

    assert result.exit_code == 2
    assert "Error" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_public_queries_pass_as_they_stand() -> None:
    queries = shared("spider-dev.jsonl").read_bytes().splitlines(keepends=True)[:100]

    lines = answers(run(["--schema", str(shared("spider-schemas.jsonl"))], b"".join(queries)))

    assert [line["verdict"] for line in lines] == ["pass"] * 100


def test_help_tells_what_the_answers_hold() -> None:
    result = run(["--help"])

    for word in ("verdict", "code", "message", "bounds", "Exit code", "echo"):
        assert word in result.stdout
