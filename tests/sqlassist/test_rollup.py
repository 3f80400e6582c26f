"""Rollups equal the aggregates they stand for: at first, after new rows, after late rows, and seen by each tenant."""

import pytest

from sqlassist.rollup import refresh_rollups
from tests.kit.mariadb import mariadb_marks
from tests.kit.sql_world import ALPHA, SqlWorld, checked, sql_world

pytestmark = mariadb_marks

_WIDE = "day, server_id, channel_id"
DIRECT = (
    f"SELECT tenant_id, {_WIDE}, COUNT(*), SUM(amount), MAX(amount) FROM pre.payments"
    f" GROUP BY tenant_id, {_WIDE} ORDER BY tenant_id, {_WIDE}"
)
ROLLED = (
    f"SELECT tenant_id, {_WIDE}, payments, revenue, largest FROM pre_rollups.daily_payments ORDER BY tenant_id, {_WIDE}"
)


@pytest.fixture(scope="module")
def world() -> SqlWorld:
    return sql_world(schema="pre", prefix="pre")


def _insert(world: SqlWorld, number: int, day: str, amount: str) -> None:
    world.server.run(
        "INSERT INTO pre.payments"
        " (payment_id, tenant_id, player_id, server_id, channel_id, day, paid_at, product, amount)"
        f" VALUES ({number}, 1, 1, 1, 1, '{day}', '{day} 10:00:00', 'gems_100', {amount})"
    )


def test_a_rollup_is_what_it_stands_for_and_stays_so(world: SqlWorld) -> None:
    first = {one.rollup: one for one in refresh_rollups(world.config, "game")}
    assert first["daily_payments"].days > 100
    assert world.server.run(ROLLED) == world.server.run(DIRECT)

    again = {one.rollup: one for one in refresh_rollups(world.config, "game")}
    assert again["daily_payments"].days == 0

    _insert(world, 900_000, "2026-06-30", "19.99")
    _insert(world, 900_001, "2026-01-02", "0.99")  # late: an old day
    assert world.server.run(ROLLED) != world.server.run(DIRECT)
    later = {one.rollup: one for one in refresh_rollups(world.config, "game")}
    assert later["daily_payments"].watermark == 900_001
    assert world.server.run(ROLLED) == world.server.run(DIRECT)


def test_only_days_with_new_rows_are_aggregated_again(world: SqlWorld) -> None:
    refresh_rollups(world.config, "game")
    _insert(world, 5_000_000, "2026-03-03", "2.99")  # far above the watermark: the overlap holds nothing else
    _insert(world, 5_000_001, "2026-05-05", "2.99")
    refresh_rollups(world.config, "game")
    _insert(world, 9_000_000, "2026-04-04", "2.99")
    (payments,) = [one for one in refresh_rollups(world.config, "game") if one.rollup == "daily_payments"]
    assert payments.days == 3  # the two before are within the overlap
    assert world.server.run(ROLLED) == world.server.run(DIRECT)


def test_a_number_that_commits_late_is_read_by_the_overlap(world: SqlWorld) -> None:
    _insert(world, 9_100_000, "2026-02-02", "1.00")
    refresh_rollups(world.config, "game")
    _insert(world, 9_099_990, "2026-02-11", "1.00")  # took its number earlier, committed later
    _insert(world, 9_100_001, "2026-02-12", "1.00")
    refresh_rollups(world.config, "game")

    assert world.server.run(ROLLED) == world.server.run(DIRECT)


def test_a_tenant_sees_his_part_of_a_rollup_only(world: SqlWorld) -> None:
    refresh_rollups(world.config, "game")
    seen = world.server.run("SELECT SUM(payments) FROM pre_tenant1.daily_payments")
    own = world.server.run("SELECT COUNT(*) FROM pre.payments WHERE tenant_id = 1")
    assert seen == own
    assert "tenant_id" not in [c[0] for c in world.server.run("DESCRIBE pre_tenant1.daily_payments")]


def test_the_catalog_offers_rollups_first(world: SqlWorld) -> None:
    names = world.config.catalog("game", ALPHA).table_names()
    assert names[:2] == ["daily_payments", "daily_sessions"]
    query = checked(world, "SELECT day, SUM(revenue) FROM daily_payments GROUP BY day")
    assert query.tables == ("daily_payments",)
