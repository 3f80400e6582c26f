import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs
import duckdb
import pytest

from sqlassist.business_days import DayRule
from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, Table
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.metric_compile import compiled
from sqlassist.metric_query import Bucket, Comparison, MetricFilter, MetricQuery, Order, Period, Threshold, described
from sqlassist.semantic import (
    Conventions,
    Dimension,
    Entity,
    Metric,
    Names,
    RegionDay,
    RollupConfig,
    SemanticLayer,
    TimeColumn,
    TimeKind,
)
from sqlassist.time_sql import bucket_expression

MAY = Period(dt.date(2026, 5, 1), dt.date(2026, 6, 1))
APRIL = Period(dt.date(2026, 4, 1), dt.date(2026, 5, 1))

ROWS = """
CREATE TABLE shops(shop_id INTEGER, name VARCHAR, country VARCHAR);
INSERT INTO shops VALUES (1,'North','de'),(2,'South','de'),(3,'Far','cn');
CREATE TABLE sales(
 sale_id INTEGER, shop_id INTEGER, day DATE, sold_at TIMESTAMP, ts BIGINT, amount DECIMAL(10,2), buyer INTEGER
);
INSERT INTO sales VALUES
 (1,1,'2026-05-01','2026-05-01 03:00:00',1777604400,10.00,1),
 (2,1,'2026-05-02','2026-05-02 12:00:00',1777723200,20.00,1),
 (3,2,'2026-05-31','2026-05-31 23:30:00',1780270200,5.50,2),
 (4,3,'2026-04-10','2026-04-10 10:00:00',1775815200,7.00,3),
 (5,1,'2026-04-30','2026-04-30 23:00:00',1777590000,40.00,2),
 (6,NULL,'2026-05-03','2026-05-03 01:00:00',1777770000,1.00,4);
CREATE TABLE visits(visit_id INTEGER, shop_id INTEGER, day DATE, visitor INTEGER);
INSERT INTO visits VALUES
 (1,1,'2026-05-01',1),(2,1,'2026-05-02',9),(3,3,'2026-05-02',3),(4,2,'2026-05-03',2),(5,2,'2026-04-03',2);
"""
TABLES = {
    "shops": {"shop_id": "integer", "name": "text", "country": "text"},
    "sales": {
        "sale_id": "integer",
        "shop_id": "integer",
        "day": "date",
        "sold_at": "datetime",
        "ts": "integer",
        "amount": "number",
        "buyer": "integer",
    },
    "visits": {"visit_id": "integer", "shop_id": "integer", "day": "date", "visitor": "integer"},
}
LAYER = SemanticLayer(
    times={
        "sales.day": TimeColumn(TimeKind.DATE),
        "sales.sold_at": TimeColumn(TimeKind.DATETIME),
        "sales.ts": TimeColumn(TimeKind.EPOCH_SECONDS),
        "visits.day": TimeColumn(TimeKind.DATE),
    },
    entities={"shop": Entity("shops", "shop_id")},
    references={"sales.shop_id": "shop", "visits.shop_id": "shop"},
    metrics={
        "turnover": Metric(Names(("turnover",)), "sales", "SUM(amount)", additive=True, time="day", unit="EUR"),
        "turnover_at": Metric(Names(("x",)), "sales", "SUM(amount)", additive=True, time="sold_at"),
        "turnover_ts": Metric(Names(("y",)), "sales", "SUM(amount)", additive=True, time="ts"),
        "buyers": Metric(Names(("buyers",)), "sales", "COUNT(DISTINCT buyer)", time="day"),
        "visitors": Metric(Names(("visitors",)), "visits", "COUNT(DISTINCT visitor)", time="day"),
        "big": Metric(Names(("big sales",)), "sales", "COUNT(*)", where="amount > 9", time="day"),
        "rate": Metric(Names(("rate",)), ratio=("buyers", "visitors"), unit="%"),
        "shops": Metric(Names(("shops",)), "shops", "COUNT(*)", additive=True),
    },
    dimensions={
        "shop": Dimension(Names(("shop",)), "shops.name"),
        "country": Dimension(Names(("country",)), "shops.country", {"de": Names(("Germany",), ("德国",))}),
        "buyer": Dimension(Names(("buyer",)), "sales.buyer"),
    },
)


def catalog(dialect: Dialect = Dialect.DUCKDB, partition: str | None = None) -> Catalog:
    tables = tuple(
        Table(
            name,
            tuple(Column(column, ColumnType(kind)) for column, kind in columns.items()),
            partition if name == "sales" else None,
        )
        for name, columns in TABLES.items()
    )
    return Catalog("t", dialect, tables)


def run(query: MetricQuery, layer: SemanticLayer = LAYER) -> list[tuple[Any, ...]]:
    """Rows of a query on DuckDB, through the guard."""
    sql = compiled(query, layer, catalog())
    assert isinstance(sql, str), sql
    checked = check(sql, catalog())
    assert isinstance(checked, CheckedQuery), (checked, sql)
    with duckdb.connect() as connection:
        connection.execute(ROWS)
        return connection.execute(checked.sql).fetchall()


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (MetricQuery(("turnover",)), [(Decimal("83.50"),)]),
        (MetricQuery(("turnover",), period=MAY), [(Decimal("36.50"),)]),
        (
            MetricQuery(("turnover",), ("shop",), period=MAY),
            [("North", Decimal("30.00")), ("South", Decimal("5.50")), (None, Decimal("1.00"))],
        ),
        (MetricQuery(("turnover",), ("shop",), limit=1), [("North", Decimal("70.00"))]),
        (
            MetricQuery(("turnover",), ("country",), order=Order("turnover", descending=False), limit=1, period=APRIL),
            [("cn", Decimal("7.00"))],
        ),
        (
            MetricQuery(("turnover",), filters=(MetricFilter("country", Comparison.IN, ("de",)),)),
            [(Decimal("75.50"),)],
        ),
        (
            MetricQuery(("turnover",), filters=(MetricFilter("shop", Comparison.NOT_IN, ("North", "Far")),)),
            [(Decimal("6.50"),)],  # a sale of no shop is of neither
        ),
        (
            MetricQuery(("turnover",), filters=(MetricFilter("buyer", Comparison.AT_LEAST, ("2",)),)),
            [(Decimal("53.50"),)],
        ),
        (
            MetricQuery(("turnover",), bucket=Bucket.MONTH),
            [(dt.date(2026, 4, 1), Decimal("47.00")), (dt.date(2026, 5, 1), Decimal("36.50"))],
        ),
        (
            MetricQuery(("turnover",), bucket=Bucket.WEEK, period=MAY),
            [(dt.date(2026, 4, 27), Decimal("31.00")), (dt.date(2026, 5, 25), Decimal("5.50"))],
        ),
        (MetricQuery(("big",), period=MAY), [(2,)]),
        (MetricQuery(("buyers", "visitors"), period=MAY), [(3, 4)]),
        (MetricQuery(("rate",), period=MAY), [(0.75,)]),
        (MetricQuery(("rate",), ("country",), period=MAY), [("de", 2 / 3), ("cn", 0.0), (None, None)]),
        (
            MetricQuery(("turnover",), ("country",), period=MAY, compared=APRIL),
            [
                ("de", Decimal("35.50"), Decimal("40.00"), Decimal("-4.50"), -0.1125),
                (None, Decimal("1.00"), Decimal("0.00"), Decimal("1.00"), None),
                ("cn", Decimal("0.00"), Decimal("7.00"), Decimal("-7.00"), -1.0),
            ],
        ),
        (
            MetricQuery(
                ("turnover",), period=MAY, filters=(MetricFilter("country", Comparison.IN, ("de",)),), share=True
            ),
            [(Decimal("35.50"), pytest.approx(35.5 / 36.5))],
        ),
        (
            MetricQuery(("turnover",), ("shop",), period=APRIL, share=True),
            [("North", Decimal("40.00"), pytest.approx(40 / 47)), ("Far", Decimal("7.00"), pytest.approx(7 / 47))],
        ),
        (
            MetricQuery(("turnover",), ("shop",), thresholds=(Threshold("buyers", Comparison.ABOVE, 1),)),
            [("North", Decimal("70.00"))],
        ),
        (
            MetricQuery(("turnover",), ("shop",), thresholds=(Threshold("visitors", Comparison.AT_LEAST, 2),)),
            [("North", Decimal("70.00"))],
        ),
        (
            MetricQuery(
                ("turnover",),
                ("shop",),
                period=MAY,
                share=True,
                thresholds=(Threshold("turnover", Comparison.ABOVE, 6),),
            ),
            [("North", Decimal("30.00"), pytest.approx(30 / 36.5))],  # of the whole, and not of what passes
        ),
        (
            MetricQuery(
                ("turnover",),
                ("shop",),
                period=MAY,
                share=True,
                thresholds=(Threshold("visitors", Comparison.BELOW, 2),),
            ),
            [
                ("South", Decimal("5.50"), pytest.approx(5.5 / 36.5)),
                (None, Decimal("1.00"), pytest.approx(1 / 36.5)),
                ("Far", None, None),
            ],
        ),
        (
            MetricQuery(
                ("turnover",),
                ("shop",),
                period=MAY,
                compared=APRIL,
                share=True,
                thresholds=(Threshold("turnover", Comparison.ABOVE, 6),),
                order=Order("turnover", False, by_change=True),
                limit=1,
            ),
            [("North", Decimal("30.00"), Decimal("40.00"), Decimal("-10.00"), -0.25, pytest.approx(30 / 36.5))],
        ),
        (
            MetricQuery(("turnover",), ("shop",), period=MAY, thresholds=(Threshold("visitors", Comparison.BELOW, 1),)),
            [(None, Decimal("1.00"))],  # where nobody was counted, less than one visitor was
        ),
        (MetricQuery(("visitors",), average_per=Bucket.DAY, period=MAY), [(pytest.approx(4 / 3),)]),
        (MetricQuery(("shops",), ("country",)), [("de", 2), ("cn", 1)]),
    ],
)
def test_a_query_gives_the_rows_that_it_means(query: MetricQuery, rows: list[tuple[Any, ...]]) -> None:
    assert run(query) == rows


def test_a_quotient_of_means_is_not_known_where_one_of_them_is_not() -> None:
    metrics = {
        **LAYER.metrics,
        "mean_sale": Metric(Names(("mean sale",)), "sales", "AVG(amount)", time="day"),
        "per_visitor": Metric(Names(("per visitor",)), ratio=("mean_sale", "visitors")),
        "sales_each": Metric(Names(("sales each",)), "sales", "COUNT(*) / COUNT(DISTINCT buyer)", time="day"),
    }
    layer = attrs.evolve(LAYER, metrics=metrics)

    # in country cn there were visitors in May, and no sale: no mean, and nothing that is 0
    assert dict(run(MetricQuery(("per_visitor",), ("country",), period=MAY), layer))["cn"] is None
    rows = run(MetricQuery(("sales_each",), ("country",), period=MAY, compared=APRIL), layer)
    assert {row[0]: row[1:3] for row in rows}["cn"] == (None, 1.0)
    of_all = MetricQuery(("sales_each",), filters=(MetricFilter("country", Comparison.IN, ("de",)),), share=True)
    refusal = compiled(of_all, layer, catalog())
    assert isinstance(refusal, Refusal)
    assert refusal.code == "not_additive"


def test_two_columns_of_one_name_are_refused() -> None:
    layer = attrs.evolve(LAYER, metrics={**LAYER.metrics, "turnover_share": LAYER.metrics["buyers"]})

    refusal = compiled(MetricQuery(("turnover", "turnover_share"), ("shop",), share=True), layer, catalog())

    assert isinstance(refusal, Refusal)
    assert refusal.code == "not_comparable"
    day = attrs.evolve(LAYER, dimensions={**LAYER.dimensions, "day": Dimension(Names(("shop day",)), "sales.day")})
    refusal = compiled(MetricQuery(("turnover",), ("day",), Bucket.DAY, period=MAY), day, catalog())
    assert isinstance(refusal, Refusal)


def test_the_lowest_is_never_what_has_no_value() -> None:
    sql = compiled(
        MetricQuery(("rate",), ("shop",), order=Order("rate", False), limit=1), LAYER, catalog(Dialect.MYSQL)
    )

    assert isinstance(sql, str)
    assert sql.endswith("ORDER BY `rate` IS NULL, `rate` LIMIT 1")
    assert isinstance(check(sql, catalog(Dialect.MYSQL)), CheckedQuery)


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("bucket", [Bucket.DAY, Bucket.WEEK, Bucket.MONTH, Bucket.DAY_OF_WEEK])
def test_the_one_day_on_which_clocks_change_is_a_day(bucket: Bucket, dialect: Dialect) -> None:
    layer = attrs.evolve(LAYER, conventions=Conventions(zone="Europe/Berlin", week_start="sunday"))
    period = Period(dt.date(2026, 3, 29), dt.date(2026, 3, 30))

    sql = compiled(MetricQuery(("turnover_at",), bucket=bucket, period=period), layer, catalog(dialect))

    assert isinstance(sql, str)
    assert isinstance(check(sql, catalog(dialect)), CheckedQuery)


@pytest.mark.parametrize("last", [29, 30])
def test_hours_of_a_day_on_which_clocks_change_are_refused_and_not_off_by_one(last: int) -> None:
    conventions = Conventions(zone="Europe/Berlin")  # its clocks changed on Sunday, 29 March 2026
    layer = attrs.evolve(LAYER, conventions=conventions)
    query = MetricQuery(("turnover_at",), bucket=Bucket.HOUR_OF_DAY)
    for start in (27, 29):
        period = Period(dt.date(2026, 3, start), dt.date(2026, 3, last) + dt.timedelta(days=1))

        refusal = compiled(attrs.evolve(query, period=period), layer, catalog())

        assert isinstance(refusal, Refusal)
        assert refusal.code == "clocks_change"
    before = Period(dt.date(2026, 3, 20), dt.date(2026, 3, 29))
    assert "60 MINUTE" in str(compiled(attrs.evolve(query, period=before), layer, catalog()))


def test_growth_orders_by_the_change() -> None:
    query = MetricQuery(("turnover",), ("country",), period=MAY, compared=APRIL, order=Order("turnover", False, True))

    assert [row[0] for row in run(query)] == ["cn", "de", None]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (MetricQuery(("visitors",), ("buyer",)), "not_splittable"),
        (MetricQuery(("visitors",), filters=(MetricFilter("buyer", Comparison.IN, ("1",)),)), "not_splittable"),
        (MetricQuery(("shops",), period=MAY), "metric_has_no_time"),
        (MetricQuery(("turnover",), bucket=Bucket.HOUR_OF_DAY), "metric_has_no_time"),
        (MetricQuery(("buyers",), ("shop",), share=True), "not_additive"),
        (MetricQuery(("turnover",), bucket=Bucket.DAY, period=MAY, compared=APRIL), "not_comparable"),
        (MetricQuery(("turnover",), filters=(MetricFilter("buyer", Comparison.IN, ("1 OR 1=1",)),)), "bad_value"),
    ],
)
def test_what_cannot_be_computed_is_refused(query: MetricQuery, code: str) -> None:
    refusal = compiled(query, LAYER, catalog())

    assert isinstance(refusal, Refusal)
    assert refusal.code == code


@pytest.mark.parametrize("value", ["O'Brien", "a\\'; DROP TABLE sales; --", "\\", "''", 'x"y', "a\0b"])
@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_value_stays_a_value(value: str, dialect: Dialect) -> None:
    query = MetricQuery(("turnover",), filters=(MetricFilter("shop", Comparison.IN, (value,)),))
    sql = compiled(query, LAYER, catalog(dialect))
    assert isinstance(sql, str)

    checked = check(sql, catalog(dialect))

    if isinstance(checked, CheckedQuery):
        assert checked.tables == ("sales", "shops")
        if dialect is Dialect.DUCKDB:
            with duckdb.connect() as connection:
                connection.execute(ROWS)
                assert connection.execute(checked.sql).fetchall() == [(None,)]


def test_days_that_begin_at_five_are_counted_so_whatever_the_column() -> None:
    layer = attrs.evolve(LAYER, conventions=Conventions(zone="UTC", day_start="05:00"))
    for metric in ("turnover_at", "turnover_ts"):
        rows = run(MetricQuery((metric,), bucket=Bucket.DAY), layer)
        assert rows[0] == (dt.date(2026, 4, 10), Decimal("7.00"))
        assert (dt.date(2026, 4, 30), Decimal("50.00")) in rows  # 03:00 on May 1 is still April 30
        assert run(MetricQuery((metric,), period=MAY), layer) == [(Decimal("26.50"),)]


def test_days_over_a_change_of_clocks_need_a_period_and_are_right_with_one() -> None:
    layer = attrs.evolve(LAYER, conventions=Conventions(zone="Europe/Berlin"))
    refusal = compiled(MetricQuery(("turnover_at",), bucket=Bucket.DAY), layer, catalog())
    assert isinstance(refusal, Refusal)
    assert refusal.code == "needs_period"

    period = Period(dt.date(2026, 3, 1), dt.date(2026, 11, 30))  # two changes
    rows = run(MetricQuery(("turnover_at",), bucket=Bucket.DAY, period=period), layer)
    assert (dt.date(2026, 6, 1), Decimal("5.50")) in rows  # 23:30 UTC on May 31 is June 1 in Berlin
    assert (dt.date(2026, 5, 1), Decimal("50.00")) in rows


def test_regions_have_days_of_their_own() -> None:
    conventions = Conventions(region_dimension="country", regions={"cn": RegionDay("Asia/Shanghai", "05:00")})
    layer = attrs.evolve(LAYER, conventions=conventions)
    day = Period(dt.date(2026, 4, 10), dt.date(2026, 4, 11))

    assert run(MetricQuery(("turnover_at",), ("country",), period=day), layer) == [("cn", Decimal("7.00"))]
    rows = run(MetricQuery(("turnover_at",), bucket=Bucket.DAY), layer)
    assert sum(row[1] for row in rows) == Decimal("83.50")


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("bucket", list(Bucket))
@pytest.mark.parametrize("metric", ["turnover", "turnover_at", "turnover_ts"])
def test_every_bucket_passes_the_guard_in_every_dialect(dialect: Dialect, bucket: Bucket, metric: str) -> None:
    if bucket is Bucket.HOUR_OF_DAY and metric == "turnover":
        return
    for conventions in (Conventions(), Conventions("Europe/Berlin", "05:00", "sunday")):
        layer = attrs.evolve(LAYER, conventions=conventions)
        sql = compiled(MetricQuery((metric,), bucket=bucket, period=MAY), layer, catalog(dialect))
        assert isinstance(sql, str), sql
        assert isinstance(check(sql, catalog(dialect)), CheckedQuery), sql


def test_a_table_that_is_kept_by_another_column_gets_a_day_more_on_either_side() -> None:
    sql = compiled(MetricQuery(("turnover_at",), period=MAY), LAYER, catalog(partition="day"))

    assert isinstance(sql, str)
    assert '"day" >= \'2026-04-30\' AND "t0"."day" < \'2026-06-02\'' in sql


def test_a_rollup_is_read_where_it_holds_all_that_is_asked() -> None:
    rollup = RollupConfig("sales", "sale_id", "day", ("shop_id",), {"turnover": "sum(amount)"})
    metric = attrs.evolve(LAYER.metrics["turnover"], rollup="daily", rollup_expression="SUM(turnover)")
    layer = attrs.evolve(LAYER, rollups={"daily": rollup}, metrics={**LAYER.metrics, "turnover": metric})
    daily = Table(
        "daily",
        (
            Column("day", ColumnType.DATE),
            Column("shop_id", ColumnType.INTEGER),
            Column("turnover", ColumnType.NUMBER),
        ),
    )
    with_rollup = attrs.evolve(catalog(), tables=(*catalog().tables, daily))

    held = {"daily": dt.date(2026, 6, 1)}

    def table_of(query: MetricQuery, known: Catalog = with_rollup, days: Mapping[str, dt.date] = held) -> str:
        sql = compiled(query, layer, known, days)
        assert isinstance(sql, str)
        result = check(sql, known)
        assert isinstance(result, CheckedQuery)
        return result.tables[0]

    assert table_of(MetricQuery(("turnover",), ("shop",), bucket=Bucket.MONTH, period=MAY)) == "daily"
    assert table_of(MetricQuery(("turnover",), ("buyer",), period=MAY)) == "sales"
    assert table_of(MetricQuery(("buyers",), period=MAY)) == "sales"
    assert table_of(MetricQuery(("turnover",), period=MAY), catalog()) == "sales"
    assert table_of(MetricQuery(("turnover",))) == "sales"  # it may lack the latest rows
    assert table_of(MetricQuery(("turnover",), period=MAY), days={}) == "sales"  # it is empty, or nobody knows
    assert table_of(MetricQuery(("turnover",), period=MAY), days={"daily": dt.date(2026, 5, 31)}) == "sales"


def test_a_query_in_words() -> None:
    query = MetricQuery(
        ("turnover",),
        ("shop",),
        filters=(MetricFilter("country", Comparison.IN, ("de",)),),
        period=MAY,
        limit=3,
    )

    assert described(query, LAYER, "en") == "turnover; by shop; country = Germany; 2026-05-01..2026-05-31; top 3"
    assert described(query, LAYER, "zh") == "turnover，按shop，country = 德国，2026-05-01..2026-05-31，前3"


def test_hours_of_the_wall_clock_and_not_of_the_business_day() -> None:
    sql = bucket_expression(
        Bucket.HOUR_OF_DAY,
        "c",
        TimeColumn(TimeKind.DATETIME),
        DayRule("Asia/Shanghai", dt.time(5)),
        None,
        "monday",
        Dialect.DUCKDB,
    )

    assert sql == "EXTRACT(HOUR FROM c + INTERVAL 480 MINUTE)"
