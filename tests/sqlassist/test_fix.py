import pytest

from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, JoinKey, Table
from sqlassist.explain import explain_sql
from sqlassist.fix import Fixed, NotFixed, fix_by_rule
from sqlassist.guard.limits import Limits
from sqlassist.semantic import Metric, Names, SemanticLayer


def catalog(dialect: Dialect = Dialect.MARIADB) -> Catalog:
    return Catalog(
        "acme",
        dialect,
        (
            Table(
                "payments",
                (
                    Column("day", ColumnType.DATE),
                    Column("amount", ColumnType.NUMBER),
                    Column("server_id", ColumnType.INTEGER),
                    Column("player_id", ColumnType.INTEGER),
                ),
            ),
            Table("servers", (Column("server_id", ColumnType.INTEGER), Column("name", ColumnType.TEXT))),
        ),
        (JoinKey("payments", "server_id", "servers", "server_id"),),
    )


@pytest.mark.parametrize(
    ("broken", "holds", "change"),
    [
        ("SELECT SUM(amont) FROM payments", "SUM(`amount`)", "amont → amount"),
        ("SELECT SUM(amount) FROM payment", "FROM `payments`", "payment → payments"),
        ("SELECT SUM(payment.amount) FROM payment", "`payments`.`amount`", "payment → payments"),
        ("SELECT SUM(amount) FROM game.payments", "FROM `payments`", "took the database names away"),
        ("SELECT SUM(amount) FROM payments; SELECT 1", "SUM(`amount`)", "kept the first statement alone"),
        ('SELECT "day", SUM("amount") FROM "payments" GROUP BY "day"', "SUM(`amount`)", "translated from"),
        ("SELECT TOP 5 day FROM payments", "LIMIT 5", "translated from tsql"),
        (
            "SELECT server_id FROM payments JOIN servers ON payments.server_id = servers.server_id",
            "`payments`.`server_id`",
            "server_id → payments.server_id",
        ),
    ],
)
def test_what_is_wrong_is_mended_step_by_step(broken: str, holds: str, change: str) -> None:
    fixed = fix_by_rule(broken, catalog(), Limits())

    assert isinstance(fixed, Fixed), fixed
    assert holds in fixed.query.sql
    assert any(one.startswith(change) for one in fixed.changes)


def test_two_mistakes_are_two_steps() -> None:
    fixed = fix_by_rule("SELECT SUM(amont) FROM game.payment", catalog(), Limits())

    assert isinstance(fixed, Fixed), fixed
    assert len(fixed.changes) == 3


def test_what_is_right_stays() -> None:
    fixed = fix_by_rule("SELECT SUM(amount) FROM payments;", catalog(), Limits())

    assert isinstance(fixed, Fixed)
    assert fixed.changes == ()


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE payments",
        "SELECT SLEEP(5) FROM payments",
        "SELECT * FROM mysql.user",
        "SELECT amount INTO OUTFILE '/tmp/x' FROM payments",
        "",
        "(" * 500,
        "what is this",
    ],
)
def test_no_rule_mends_an_attack(text: str) -> None:
    outcome = fix_by_rule(text, catalog(), Limits())

    assert isinstance(outcome, NotFixed)
    assert outcome.refusal.code


def test_a_statement_in_words() -> None:
    layer = SemanticLayer(metrics={"revenue": Metric(Names(("revenue",), ("收入",)), "payments", "SUM(amount)")})
    sql = (
        "SELECT `name`, SUM(`amount`) AS `revenue` FROM `payments` AS `p` JOIN `servers` AS `s` ON"
        " `p`.`server_id` = `s`.`server_id` WHERE `day` >= '2026-05-01' GROUP BY 1 ORDER BY `revenue` DESC LIMIT 5"
    )

    english = explain_sql(sql, Dialect.MARIADB, layer, "en")
    assert english.splitlines() == [
        "- reads payments, servers",
        "- gives name, revenue = SUM(amount)",
        "- counts rows where day >= '2026-05-01'",
        "- one row for each name",
        "- sorted by revenue DESC",
        "- at most 5 rows",
    ]
    assert "收入 = SUM(amount)" in explain_sql(sql, Dialect.MARIADB, layer, "zh")
