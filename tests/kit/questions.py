"""Layers that questions in words are asked over: the sample's, and a clinic's that shares no word with it."""

import datetime as dt
from functools import cache

from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, Table
from sqlassist.metric_query import MetricQuery, Period, described
from sqlassist.parsing.understand import understand
from sqlassist.sample import sample_config
from sqlassist.semantic import (
    Conventions,
    Dimension,
    Disambiguation,
    Entity,
    Metric,
    Names,
    SemanticLayer,
    TimeColumn,
    TimeKind,
)
from sqlassist.understanding import Understanding, Understood

TODAY = dt.date(2026, 6, 17)  # a Wednesday


@cache
def sample() -> tuple[SemanticLayer, Catalog]:
    """The sample's layer and a tenant's catalog."""
    config = parse_sql_config(sample_config(Dialect.DUCKDB, 'folder = "nowhere"').encode(), "sample.toml")
    return config.sources["game"].semantic, config.catalog("game", TenantId("tenant1"))


@cache
def clinic() -> tuple[SemanticLayer, Catalog]:
    """Wards, visits and bills."""
    integer, number, text, day = ColumnType.INTEGER, ColumnType.NUMBER, ColumnType.TEXT, ColumnType.DATE
    tables = {
        "visits": {"visit_id": integer, "ward_id": integer, "patient_id": integer, "day": day, "waited": number},
        "bills": {"bill_id": integer, "ward_id": integer, "day": day, "amount": number},
        "wards": {"ward_id": integer, "name": text, "floor": integer},
        "patients": {"patient_id": integer, "name": text, "age": integer, "insurer": text},
    }
    catalog = Catalog(
        "clinic",
        Dialect.DUCKDB,
        tuple(
            Table(name, tuple(Column(column, kind) for column, kind in columns.items()))
            for name, columns in tables.items()
        ),
    )
    layer = SemanticLayer(
        title="Clinic",
        conventions=Conventions(week_start="sunday"),
        times={"visits.day": TimeColumn(TimeKind.DATE), "bills.day": TimeColumn(TimeKind.DATE)},
        entities={
            "ward": Entity("wards", "ward_id", Names(("ward",), ("病房",))),
            "patient": Entity("patients", "patient_id", Names(("patient",), ("病人",))),
        },
        references={"visits.ward_id": "ward", "visits.patient_id": "patient", "bills.ward_id": "ward"},
        metrics={
            "visits": Metric(
                Names(("visits", "appointments"), ("就诊量", "就诊次数")),
                "visits",
                "COUNT(*)",
                additive=True,
                time="day",
                decimals=0,
            ),
            "waiting": Metric(
                Names(("average waiting time", "waiting time"), ("平均等待时间",)),
                "visits",
                "AVG(waited)",
                time="day",
                unit="minutes",
                lower_is_better=True,
            ),
            "billed": Metric(
                Names(("billed amount", "billings"), ("账单总额",)),
                "bills",
                "SUM(amount)",
                additive=True,
                time="day",
                unit="EUR",
            ),
        },
        dimensions={
            "ward": Dimension(
                Names(("ward", "department"), ("病房", "科室")),
                "wards.name",
                values={
                    "cardio": Names(("cardiology",), ("心内科",)),
                    "ortho": Names(("orthopaedics",), ("骨科",)),
                },
                enumerable=True,
            ),
            "floor": Dimension(Names(("floor",), ("楼层",)), "wards.floor", number_format="{}"),
            "age": Dimension(Names(("age",), ("年龄",)), "patients.age", number_format="{}"),
            "insurer": Dimension(Names(("insurer",), ("保险公司",)), "patients.insurer", enumerable=True),
            "patient": Dimension(Names(("patient",), ("病人",)), "patients.name"),
        },
        disambiguations=(
            Disambiguation(Names(("volume",), ("规模",)), metrics=("visits", "billed")),
            Disambiguation(Names(("traffic",), ("人流",)), metrics=("visits", "billed"), prefer="visits"),
        ),
    )
    return layer, catalog


def asked(question: str, *, over: str = "sample", previous: MetricQuery | None = None) -> Understanding:
    """What a question becomes on 2026-06-17."""
    layer, catalog = sample() if over == "sample" else clinic()
    values = {} if over == "sample" else {"insurer": ("Nordic Mutual", "Aster")}
    return understand(question, layer, catalog, today=TODAY, previous=previous, values=values)


def query_of(question: str, *, over: str = "sample", previous: MetricQuery | None = None) -> MetricQuery:
    """The one query that a question becomes; fails where it is not understood."""
    found = asked(question, over=over, previous=previous)
    assert isinstance(found, Understood), f"{question}: {found}"
    return found.query


def in_words(question: str, *, over: str = "sample", previous: MetricQuery | None = None) -> str:
    """The query of a question, described in English, with its order where it is not the usual one."""
    layer, _ = sample() if over == "sample" else clinic()
    query = query_of(question, over=over, previous=previous)
    return described(query, layer, "en") + ("; by change" if query.order is not None and query.order.by_change else "")


def period(first: str, last: str) -> Period:
    """Both days included."""
    return Period(dt.date.fromisoformat(first), dt.date.fromisoformat(last) + dt.timedelta(days=1))
