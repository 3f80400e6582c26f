"""Without writes, rollups are files: each tenant's own rows and no others, whole at every moment, kept up to date."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import duckdb
import pytest
import trio
from click.testing import CliRunner

from actors.cli.sql_admin import refresh
from actors.configuration import ScenarioError
from actors.sql_configuration import load_sql_config, parse_sql_config
from runtime.ids import TenantId
from sqlassist import rollup_files
from sqlassist.config import SqlConfig
from sqlassist.execute.embedded import EmbeddedBackend, open_embedded_backend
from sqlassist.execute.sources import open_sources
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.rollup import RollupFailed
from sqlassist.rollup_files import refresh_rollup_files
from sqlassist.sources import SourceChoice, check_for
from tests.kit.mariadb import mariadb_marks
from tests.kit.sql_world import ALPHA, BETA, SqlWorld, provision, sql_world

pytestmark = mariadb_marks

_WIDE = "day, server_id, channel_id"
ROLLED = f"SELECT {_WIDE}, payments, revenue, largest FROM daily_payments ORDER BY {_WIDE}"
TOTAL = "SELECT SUM(payments) AS payments FROM daily_payments"


KILLED = """
import os, signal, sys
from pathlib import Path
from actors.sql_configuration import load_sql_config
from sqlassist import rollup_files
rollup_files._put_in_place = lambda fresh, path: os.kill(os.getpid(), signal.SIGKILL)
rollup_files.refresh_rollup_files(load_sql_config(Path(sys.argv[1])), "game")
"""


@attrs.frozen
class Kept:
    """A source without writes, and where its rollups are."""

    world: SqlWorld
    config: SqlConfig
    folder: Path
    text: str

    def stored(self, tenant: TenantId = ALPHA) -> list[tuple[str, ...]]:
        """The rows of a tenant's file."""
        with contextlib.closing(duckdb.connect(str(self.folder / f"{tenant}.duckdb"), read_only=True)) as file:
            return [tuple(_text(cell) for cell in row) for row in file.execute(ROLLED).fetchall()]

    def direct(self, number: int = 1) -> list[tuple[str, ...]]:
        """What they stand for."""
        rows = self.world.server.run(
            f"SELECT {_WIDE}, COUNT(*), SUM(amount), MAX(amount) FROM kept.payments"
            f" WHERE tenant_id = {number} GROUP BY {_WIDE} ORDER BY {_WIDE}"
        )
        return [tuple(_text(cell) for cell in row) for row in rows]

    def next_number(self) -> int:
        """One above every payment."""
        return int(self.world.server.run("SELECT MAX(payment_id) + 1 FROM kept.payments")[0][0])

    def insert(self, number: int, day: str, tenant: int = 1) -> None:
        """One more payment."""
        self.world.server.run(
            "INSERT INTO kept.payments"
            " (payment_id, tenant_id, player_id, server_id, channel_id, day, paid_at, product, amount)"
            f" VALUES ({number}, {tenant}, 1, 1, 1, '{day}', '{day} 10:00:00', 'gems_100', 1.25)"
        )


def _text(cell: object) -> str:
    text = str(cell)
    return text.rstrip("0").rstrip(".") if "." in text else text


@pytest.fixture(scope="module")
def world() -> SqlWorld:
    return sql_world(schema="kept", prefix="kept")


@pytest.fixture
def kept(world: SqlWorld, tmp_path: Path) -> Kept:
    folder = tmp_path / "rollups"
    folder.mkdir(mode=0o700)
    text = _without_writes(world.text, folder)
    config = parse_sql_config(text.encode(), "sql.toml")
    provision(world.server, config)
    return Kept(world, config, folder, text)


def _without_writes(text: str, folder: Path) -> str:
    return text.replace("[sources.game]\n", f'[sources.game]\nwrites = false\nrollup_folder = "{folder}"\n', 1)


def _choice(kept: Kept, sql: str, tenant: TenantId = ALPHA) -> SourceChoice:
    choice = check_for(kept.config, tenant, sql)
    assert isinstance(choice, SourceChoice), choice
    return choice


async def _total(backend: EmbeddedBackend, kept: Kept, tenant: TenantId = ALPHA) -> int:
    result = await backend.execute(tenant, _choice(kept, TOTAL, tenant).query)
    assert isinstance(result, ResultSet), result
    return int(str(result.rows[0][0]))


def test_a_file_is_what_it_stands_for_and_stays_so_with_late_rows(kept: Kept) -> None:
    first = {(one.tenant, one.rollup): one for one in refresh_rollup_files(kept.config, "game")}
    assert set(first) == {(t, r) for t in (ALPHA, BETA) for r in ("daily_payments", "daily_sessions")}
    assert first[ALPHA, "daily_payments"].days > 100
    assert kept.stored() == kept.direct()
    assert all(one.days == 0 for one in refresh_rollup_files(kept.config, "game"))

    top = first[ALPHA, "daily_payments"].watermark
    kept.insert(top + 1_000_000, "2026-05-05")  # far above the watermark: the overlap holds nothing else
    refresh_rollup_files(kept.config, "game")
    kept.insert(top + 2_000_000, "2026-06-30")
    kept.insert(top + 2_000_001, "2026-01-02")  # late: an old day
    assert kept.stored() != kept.direct()
    later = {(one.tenant, one.rollup): one for one in refresh_rollup_files(kept.config, "game")}
    assert later[ALPHA, "daily_payments"].days == 3  # the one before is within the overlap
    assert later[BETA, "daily_payments"].days == 0
    assert kept.stored() == kept.direct()

    kept.insert(top + 1_999_990, "2026-02-11")  # took its number earlier, committed later
    kept.insert(top + 2_000_002, "2026-02-12")
    refresh_rollup_files(kept.config, "game")
    assert kept.stored() == kept.direct()


def test_a_file_holds_its_tenants_rows_only(kept: Kept) -> None:
    refresh_rollup_files(kept.config, "game")
    assert kept.stored(BETA) == kept.direct(2)
    servers = {tenant: {row[1] for row in kept.stored(tenant)} for tenant in (ALPHA, BETA)}
    assert servers[ALPHA]
    assert servers[BETA]
    assert not servers[ALPHA] & servers[BETA]
    assert {(kept.folder / f"{tenant}.duckdb").stat().st_mode & 0o777 for tenant in (ALPHA, BETA)} == {0o400}


def test_other_keys_make_a_file_anew(kept: Kept) -> None:
    refresh_rollup_files(kept.config, "game")
    swapped = parse_sql_config(kept.text.replace('keys = { tenant = ["1"] }', 'keys = { tenant = ["2"] }').encode(), "")
    provision(kept.world.server, swapped)
    try:
        refresh_rollup_files(swapped, "game")
    finally:
        provision(kept.world.server, kept.config)
    assert kept.stored() == kept.direct(2)


def test_rows_of_a_view_that_was_provisioned_late_do_not_stay(kept: Kept) -> None:
    swapped = parse_sql_config(kept.text.replace('keys = { tenant = ["1"] }', 'keys = { tenant = ["2"] }').encode(), "")
    refresh_rollup_files(swapped, "game")  # the server's view has the old keys yet
    assert kept.stored() == kept.direct(1)
    provision(kept.world.server, swapped)
    try:
        refresh_rollup_files(swapped, "game")
    finally:
        provision(kept.world.server, kept.config)
    assert kept.stored() == kept.direct(2)


def test_what_is_hidden_is_not_in_the_file(kept: Kept) -> None:
    refresh_rollup_files(kept.config, "game")
    text = kept.text.replace(
        "[tenants.tenant1]\n", '[tenants.tenant1]\nhidden = ["daily_sessions", "daily_payments.revenue"]\n'
    )
    refresh_rollup_files(parse_sql_config(text.encode(), "sql.toml"), "game")
    with contextlib.closing(duckdb.connect(str(kept.folder / "tenant1.duckdb"), read_only=True)) as file:
        names = {
            row[0] for row in file.execute("SELECT column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
        }
    assert "largest" in names
    assert not names & {"revenue", "sessions", "minutes"}


async def test_a_query_of_a_rollup_runs_on_the_file_and_says_so(kept: Kept) -> None:
    refresh_rollup_files(kept.config, "game")
    choice = _choice(kept, TOTAL)
    assert (choice.source, choice.why) == ("game_rollups", "tables")
    base = _choice(kept, "SELECT COUNT(*) AS payments FROM payments WHERE day >= '2020-01-01'")
    assert base.source == "game"
    async with open_sources(kept.config) as sources:
        rolled = await sources.execute(choice.source, ALPHA, choice.query)
        direct = await sources.execute(base.source, ALPHA, base.query)
    assert isinstance(rolled, ResultSet)
    assert isinstance(direct, ResultSet)
    assert str(rolled.rows[0][0]) == str(direct.rows[0][0])
    assert rolled.source == "game_rollups"


def test_rollups_and_tables_are_not_joined(kept: Kept) -> None:
    sql = "SELECT p.amount FROM payments p JOIN daily_payments d ON p.day = d.day WHERE p.day = '2026-02-02'"
    refusal = check_for(kept.config, ALPHA, sql)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "across_sources"


async def test_a_crash_before_the_rename_leaves_the_old_file_and_the_next_refresh_goes_on(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh_rollup_files(kept.config, "game")
    before = kept.stored()
    kept.insert(kept.next_number(), "2026-03-03")

    def lost(fresh: Path, path: Path) -> None:
        assert fresh.exists()
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(rollup_files, "_put_in_place", lost)
        with pytest.raises(RollupFailed, match="No space left"):
            refresh_rollup_files(kept.config, "game")
    assert (kept.folder / "tenant1.duckdb.new").exists()
    assert kept.stored() == before
    (kept.folder / "tenant1.duckdb.new").write_bytes(b"half of a file")  # as a killed process leaves it
    (kept.folder / "tenant1.duckdb.new.wal").write_bytes(b"half of a log")

    refresh_rollup_files(kept.config, "game")
    assert kept.stored() == kept.direct() != before
    assert not list(kept.folder.glob("*.new*"))


async def test_readers_get_the_new_file_and_running_queries_finish_on_the_old(kept: Kept) -> None:
    refresh_rollup_files(kept.config, "game")
    async with open_embedded_backend(kept.config, "game_rollups") as backend:
        before = await _total(backend, kept)
        kept.insert(kept.next_number(), "2026-03-03")
        counts: list[int] = []

        async def ask() -> None:
            counts.extend([await _total(backend, kept) for _ in range(10)])

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.to_thread.run_sync(refresh_rollup_files, kept.config, "game")
        assert len(counts) == 30
        assert set(counts) <= {before, before + 1}
        assert await _total(backend, kept) == before + 1
        assert backend.statistics().connections == 1


def test_a_refresh_that_is_killed_before_the_rename_loses_nothing(kept: Kept, tmp_path: Path) -> None:
    refresh_rollup_files(kept.config, "game")
    before = kept.stored()
    kept.insert(kept.next_number(), "2026-03-04")
    file = tmp_path / "sql.toml"
    file.write_text(kept.text)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    assert (kept.folder / "tenant1.duckdb.new").exists()
    assert kept.stored() == before
    refresh_rollup_files(kept.config, "game")
    assert kept.stored() == kept.direct() != before


def test_the_command_says_whose_file_it_refreshed(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "sql.toml"
    file.write_text(kept.text)
    result = CliRunner().invoke(refresh, [str(file)])
    assert result.exit_code == 0, result.output
    assert "game.daily_payments of tenant1: " in result.output


def test_a_folder_that_is_missing_or_not_writable_is_told_in_a_line(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sql.toml"
    file.write_text(kept.text)
    with monkeypatch.context() as patched:
        # as root may write anywhere
        patched.setattr("os.access", lambda path, _mode, **_more: str(path) != str(kept.folder))
        result = CliRunner().invoke(refresh, [str(file)])
    assert result.exit_code == 2
    assert "is not writable: give this user the right" in result.output.replace("\n", " ")
    assert not list(kept.folder.iterdir())
    file.write_text(kept.text.replace(str(kept.folder), str(tmp_path / "none")))
    with pytest.raises(ScenarioError) as caught:
        load_sql_config(file)
    assert ["there is no folder" in problem.message for problem in caught.value.problems] == [True]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("writes = false\n", "", "with writes = false"),
        ('sequence = "payment_id"', 'sequence = "number"', "must be a column of"),
        ("[tenants.tenant1]\n", '[tenants.tenant1]\nhidden = ["payments.amount"]\n', "hide 'daily_payments' from him"),
        (
            "[tenants.tenant1]\n",
            '[tenants."../x"]\naccount = "x"\nkeys = { tenant = ["9"] }\n[tenants.tenant1]\n',
            "name of a file",
        ),
        (
            "[tenants.tenant1]\n",
            '[sources.game_rollups]\ndialect = "duckdb"\nfolder = "x"\ntables = {}\n[tenants.tenant1]\n',
            "is there already",
        ),
    ],
)
def test_what_cannot_be_kept_is_told(kept: Kept, old: str, new: str, told: str) -> None:
    assert old in kept.text
    with pytest.raises(ScenarioError) as caught:
        parse_sql_config(kept.text.replace(old, new).encode(), "sql.toml")
    assert any(told in problem.message for problem in caught.value.problems), caught.value.problems
