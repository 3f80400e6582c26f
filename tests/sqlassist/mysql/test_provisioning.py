"""Accounts, views and grants on a real MySQL: made once, closed to each other, and filled rollups behind them."""

import pytest

from sqlassist.administration import try_attempts
from sqlassist.rollup import refresh_rollups
from sqlassist.verify import Expected, attempts_for
from tests.kit.mysql import mysql_marks
from tests.kit.mysql_world import MySqlWorld, mysql_world

pytestmark = mysql_marks


@pytest.fixture(scope="module")
def world() -> MySqlWorld:
    return mysql_world()


def test_verify_finds_no_leak(world: MySqlWorld) -> None:
    tried = try_attempts(world.config, "game", attempts_for(world.config, "game"))

    assert [(t.attempt.account, t.attempt.what, t.outcome) for t in tried if not t.passed] == []
    assert {t.attempt.expected for t in tried} == set(Expected)
    assert len(tried) > 150


def test_a_second_run_makes_no_account_grants_and_revokes_nothing(world: MySqlWorld) -> None:
    kinds = {" ".join(step.sql.split()[:2]) for step in world.steps()}

    assert kinds == {"ALTER USER", "CREATE TABLE", "CREATE OR"}


@pytest.mark.parametrize(
    ("grant", "found_by"),
    [
        ("GRANT SELECT ON corral_tenant2.players TO 'corral_tenant1'@'%'", "reads players of tenant2"),
        ("GRANT SELECT ON core.players TO 'corral_tenant1'@'%'", "reads base table players"),
        ("GRANT FILE ON *.* TO 'corral_tenant1'@'%'", "reads a file"),
        ("GRANT PROCESS ON *.* TO 'corral_tenant1'@'%'", "has privileges on the whole server that are not his"),
        (
            "GRANT CONNECTION_ADMIN ON *.* TO 'corral_tenant1'@'%'",
            "has privileges on the whole server that are not his",
        ),
    ],
)
def test_a_planted_leak_is_found_and_provisioning_closes_it(world: MySqlWorld, grant: str, found_by: str) -> None:
    telling = tuple(a for a in attempts_for(world.config, "game") if a.what == found_by)
    assert telling
    world.server.run(grant)
    try:
        leaks = [t for t in try_attempts(world.config, "game", telling) if not t.passed]
    finally:
        assert world.provision() == []

    assert {t.attempt.account for t in leaks} == {"corral_tenant1"}
    assert [t for t in try_attempts(world.config, "game", telling) if not t.passed] == []


def test_rollups_are_filled_once(world: MySqlWorld) -> None:
    first = refresh_rollups(world.config, "game")
    again = refresh_rollups(world.config, "game")

    assert all(refreshed.days > 0 for refreshed in first)
    assert [refreshed.days for refreshed in again] == [0] * len(first)
    base = world.server.run("SELECT COUNT(*), SUM(amount) FROM core.payments")
    assert world.server.run("SELECT SUM(payments), SUM(revenue) FROM corral_rollups.daily_payments")[0][0] == base[0][0]
