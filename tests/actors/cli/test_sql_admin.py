"""The commands on a real server: sample, provision, verify, refresh, run, and the audit of it."""

import io
import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli.main import corral
from actors.cli.sql_run import MAX_LINE_CHARACTERS, _next_line  # pyright: ignore[reportPrivateUsage]
from sqlassist.catalog import Dialect
from sqlassist.sample import sample_config, sample_semantic_layer
from tests.kit.mariadb import MariaDb, mariadb, mariadb_marks
from tests.kit.sql_world import world_settings


def _corral(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(corral, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


@pytest.fixture(scope="module")
def server() -> MariaDb:
    return mariadb()


@pytest.fixture(scope="module")
def config(server: MariaDb) -> Path:
    path = server.folder / "cli.toml"
    settings = world_settings(server, schema="shop", prefix="cli")
    path.write_text(sample_config(Dialect.MARIADB, settings, tenants=2, semantic_file="cli.semantic.toml"))
    path.with_suffix(".semantic.toml").write_text(sample_semantic_layer())
    done = _corral("sql", "sample", "mariadb", "--config", path, "--rows", 2000, "--tenants", 2)
    assert done.exit_code == 0, done.output
    return path


@pytest.mark.parametrize("mark", [pytest.param(0, marks=mariadb_marks)])
def test_from_nothing_to_an_audited_answer_and_back(server: MariaDb, config: Path, tmp_path: Path, mark: int) -> None:
    planned = _corral("sql", "provision", config)
    assert planned.exit_code == 0, planned.output
    assert "CREATE USER 'cli_tenant1'@'%'" in planned.output
    assert server.run("SELECT COUNT(*) FROM mysql.user WHERE user LIKE 'cli%'") == [(0,)]  # a plan does nothing

    script, undo = tmp_path / "plan.sql", tmp_path / "undo.sql"
    applied = _corral("sql", "provision", config, "--apply", "--script", script, "--undo", undo)
    assert applied.exit_code == 0, applied.output
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    secrets = [path.read_text().strip() for path in (server.folder / "secrets-cli").iterdir()]
    assert len(secrets) == 5
    assert not any(secret in script.read_text() for secret in secrets)

    again = _corral("sql", "provision", config)
    assert not any(word in again.output for word in ("CREATE USER", "CREATE DATABASE", "GRANT", "REVOKE", "DROP"))

    verified = _corral("sql", "verify", config)
    assert verified.exit_code == 0, verified.output
    assert ", 0 not as they should be" in verified.output

    refreshed = _corral("sql", "refresh", config)
    assert refreshed.exit_code == 0, refreshed.output
    assert "game.daily_payments" in refreshed.output

    _run_and_audit(config, tmp_path)

    server.run("GRANT SELECT ON shop.players TO 'cli_tenant1'@'%'")
    leaking = _corral("sql", "verify", config, "--json")
    assert leaking.exit_code == 1
    bad = [row for row in map(json.loads, leaking.output.splitlines()) if not row["passed"]]
    assert {"reads base table players", "has privileges on tables that are not his"} <= {row["what"] for row in bad}

    for statement in undo.read_text().split(";\n"):
        lines = [line for line in statement.splitlines() if not line.startswith("--")]
        if "".join(lines).strip():
            server.run("\n".join(lines))
    assert server.run("SELECT COUNT(*) FROM mysql.user WHERE user LIKE 'cli%'") == [(0,)]
    assert server.run("SHOW DATABASES LIKE 'cli%'") == []
    assert server.run("SELECT COUNT(*) FROM shop.players") != [(0,)]


def _run_and_audit(config: Path, tmp_path: Path) -> None:
    trail = tmp_path / "trail"
    statements = (
        'SELECT COUNT(*) AS n FROM servers\nDROP TABLE players\n{"sql": "SELECT SUM(revenue) r FROM daily_payments"}\n'
    )
    options = ("--config", config, "--tenant", "tenant1", "--audit", trail, "--user", "ann")
    ran = _corral("sql", "run", *options, stdin=statements)
    assert ran.exit_code == 0, ran.output
    first, second, third = map(json.loads, ran.output.splitlines())
    assert (first["verdict"], first["columns"], first["rows"], first["source"]) == ("pass", ["n"], [[6]], "game")
    assert (second["verdict"], second["code"]) == ("refuse", "not_a_query")
    assert third["types"] == ["decimal"]
    assert float(third["rows"][0][0]) > 0

    checked = _corral("audit", "verify", trail)
    assert checked.exit_code == 0, checked.output
    assert checked.output.startswith("3 records, head 3:")
    lines = _corral("audit", "tail", trail, "-n", 2).output.splitlines()
    assert [line.split()[2:6] for line in lines] == [
        ["tenant1", "ann", "refuse", "not_a_query:"],
        ["tenant1", "ann", "pass:", "SELECT"],
    ]
    exported = [json.loads(line) for line in _corral("audit", "export", trail).output.splitlines()]
    assert [row["rows"] for row in exported] == [1, 0, 1]
    assert _corral("audit", "export", trail, "--format", "csv", "--tenant", "nobody").output == ""

    (file,) = trail.glob("audit-*.jsonl")
    file.write_text(file.read_text().replace("DROP TABLE", "drop table"))
    tampered = _corral("audit", "verify", trail)
    assert tampered.exit_code == 1
    assert "record 2 was changed" in tampered.output


@pytest.mark.parametrize("mark", [pytest.param(0, marks=mariadb_marks)])
def test_what_a_dba_refuses_is_told_with_the_way_on(server: MariaDb, config: Path, tmp_path: Path, mark: int) -> None:
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, CREATE VIEW, SHOW VIEW, CREATE USER, INDEX, ALTER, SET USER"
    server.run("CREATE USER half@localhost", f"GRANT {rights} ON *.* TO half@localhost WITH GRANT OPTION")
    text = config.read_text().replace('admin = { user = "root" }', 'admin = { user = "half" }')
    text = text.replace('"cli.semantic.toml"', f'"{config.with_suffix(".semantic.toml")}"')
    limited = tmp_path / "half.toml"
    limited.write_text(text.replace('prefix = "cli"', 'prefix = "half"').replace("secrets-cli", "secrets-half"))
    try:
        result = _corral("sql", "provision", limited, "--apply")
        assert result.exit_code == 1, result.output
        assert "set watchdog = false: a query is still killed by its own account" in result.output

        limited.write_text(limited.read_text().replace('prefix = "half"', 'prefix = "half"\nwatchdog = false'))
        again = _corral("sql", "provision", limited, "--apply")
        assert again.exit_code == 0, again.output
        verified = _corral("sql", "verify", limited)
        assert verified.exit_code == 0, verified.output
    finally:
        server.run("DROP USER half@localhost")


def test_duckdb_needs_no_server(tmp_path: Path) -> None:
    config = tmp_path / "sql.toml"
    options = ("--folder", tmp_path / "data", "--write-config", config, "--rows", 2000, "--tenants", 2)
    made = _corral("sql", "sample", "duckdb", *options)
    assert made.exit_code == 0, made.output

    sql = "SELECT channel_id, SUM(amount) FROM payments WHERE day > '2026-02-01' GROUP BY channel_id ORDER BY 1\n"
    ran = _corral("sql", "run", "--config", config, "--tenant", "tenant2", stdin=sql)

    assert ran.exit_code == 0, ran.output
    (row,) = map(json.loads, ran.output.splitlines())
    assert row["verdict"] == "pass", row
    assert len(row["rows"]) == 5
    assert row["types"] == ["integer", "decimal"]


def test_an_attempt_that_the_database_fails_is_on_record(tmp_path: Path) -> None:
    path, trail = tmp_path / "sql.toml", tmp_path / "trail"
    path.write_text(sample_config(Dialect.DUCKDB, f'folder = "{tmp_path}/nothing"', tenants=1))

    ran = _corral(
        *("sql", "run", "--config", path, "--tenant", "tenant1", "--audit", trail), stdin="SELECT name FROM servers\n"
    )

    assert ran.exit_code == 3
    assert "tenant1.duckdb cannot be opened" in ran.output
    (row,) = [json.loads(line) for line in _corral("audit", "export", trail).output.splitlines()]
    assert (row["verdict"], row["code"], row["draft"]) == ("refuse", "database_failed", "SELECT name FROM servers")


@pytest.mark.parametrize("arguments", [("provision",), ("verify",), ("refresh",)])
def test_a_wrong_configuration_exits_with_2(tmp_path: Path, arguments: tuple[str]) -> None:
    path = tmp_path / "sql.toml"
    path.write_text("[sources.game]\ndialect = 'mariadb'\ntables = {}\nport = 70000\n[tenants]\n")
    result = _corral("sql", *arguments, path)
    assert result.exit_code == 2
    assert "port" in result.output


def test_a_server_that_is_not_there_exits_with_3(tmp_path: Path) -> None:
    path = tmp_path / "sql.toml"
    settings = 'port = 20002\nschema = "game"\ncredentials = { folder = "x" }\nadmin = { user = "root" }'
    path.write_text(sample_config(Dialect.MARIADB, settings))
    result = _corral("sql", "provision", path)
    assert result.exit_code == 3
    assert "127.0.0.1:20002" in result.output
    offline = _corral("sql", "provision", path, "--offline")
    assert offline.exit_code == 0
    assert "CREATE OR REPLACE ALGORITHM=MERGE" in offline.output


def test_a_password_that_others_may_read_is_refused(tmp_path: Path) -> None:
    password = tmp_path / "admin.password"
    password.write_text("x\n")
    password.chmod(0o644)
    path = tmp_path / "sql.toml"
    admin = f'admin = {{ user = "root", file = "{password}" }}'
    path.write_text(sample_config(Dialect.MARIADB, f'schema = "game"\ncredentials = {{ folder = "x" }}\n{admin}'))
    result = _corral("sql", "provision", path)
    assert result.exit_code == 2
    assert "chmod 600" in result.output


def test_a_draft_cannot_forge_a_line_of_the_trail(tmp_path: Path) -> None:
    config, trail = tmp_path / "sql.toml", tmp_path / "trail"
    made = _corral("sql", "sample", "duckdb", "--folder", tmp_path / "data", "--write-config", config, "--rows", 1000)
    assert made.exit_code == 0, made.output
    draft = json.dumps({"sql": "SELECT 1\n99 2026-01-01 tenant2 root pass: SELECT 2\x1b[2J\u202e"}) + "\n"
    asked = _corral("sql", "run", "--config", config, "--tenant", "tenant1", "--audit", trail, stdin=draft)
    assert asked.exit_code == 0, asked.output
    (line,) = _corral("audit", "tail", trail).output.splitlines()
    assert line.endswith(r"SELECT 1\n99 2026-01-01 tenant2 root pass: SELECT 2\x1b[2J\u202e")


@pytest.mark.parametrize("command", ["tail", "export"])
def test_a_folder_that_is_no_trail_is_told(tmp_path: Path, command: str) -> None:
    done = _corral("audit", command, tmp_path)
    assert (done.exit_code, done.output) == (2, f"Error: {tmp_path}: there is no audit trail\n")


def test_a_log_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "nowhere" / "log"
    done = _corral("sql", "run", "--config", tmp_path / "none.toml", "--tenant", "tenant1", "--log", log)
    assert done.exit_code == 2
    assert done.output == f"Error: --log {log} cannot be written: No such file or directory\n"


@pytest.mark.parametrize("command", ["provision", "verify", "refresh"])
def test_a_command_that_found_no_server_says_that_it_did_nothing(tmp_path: Path, command: str) -> None:
    config = tmp_path / "sql.toml"
    config.write_text(sample_config(Dialect.DUCKDB, f'folder = "{tmp_path}"', tenants=1))
    done = _corral("sql", command, config)
    assert done.exit_code == 0
    assert "nothing was done" in done.output


@pytest.mark.parametrize("command", ["check", "run", "sample"])
def test_help_keeps_its_columns(command: str) -> None:
    shown = _corral("sql", command, "--help").output
    assert "\\b" not in shown
    assert "\x08" not in shown


def test_a_line_too_long_is_skipped_without_being_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bounded(io.StringIO):
        def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]  # the stub of IOBase means bytes
            assert size is not None
            assert 0 < size <= 2 * MAX_LINE_CHARACTERS
            return super().readline(size)

    monkeypatch.setattr("sys.stdin", Bounded("a" * 5 * MAX_LINE_CHARACTERS + "\nSELECT 1\n"))
    lines = list(iter(_next_line, ""))
    assert [len(lines[0]) > MAX_LINE_CHARACTERS, *lines[1:]] == [True, "SELECT 1\n"]


def test_a_configuration_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "sql.toml"
    arguments = ("sql", "sample", "mariadb", "--write-config", path)
    assert _corral(*arguments).exit_code == 0
    path.write_text("mine")
    again = _corral(*arguments)

    assert again.exit_code == 2
    assert "is there already" in again.output
    assert path.read_text() == "mine"
