"""The real pipeline over the sample data's schema, with no model and rows by script: what a question itself costs."""

import datetime as dt
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from actors.assistant import Assistant, audited, business_day
from actors.assistant_caches import CacheConfig
from actors.assistant_library import AssistantLibrary
from actors.assistant_subjects import subjects_of
from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.audit import open_audit
from sqlassist.catalog import Dialect
from sqlassist.messages import Refusal
from sqlassist.ports import Ports, Subject
from sqlassist.result import ResultColumn, ResultSet, ValueType
from sqlassist.sample import sample_config
from sqlassist.sources import SourceChoice

QUESTIONS = ("new players per day last week", "revenue by server yesterday", "上周每天的新增玩家", "本月各渠道收入")
ROWS = 14


@asynccontextmanager
async def open_answering() -> AsyncIterator[Assistant]:
    """Parsing, compiling, the guard and the audit are real; no cache helps. For `corral bench assistant`."""
    config = parse_sql_config(sample_config(Dialect.DUCKDB, 'folder = "nowhere"').encode(), "sample")
    kept: dict[TenantId, tuple[Subject, ...]] = {}

    def subjects(tenant: TenantId) -> tuple[Subject, ...]:
        return kept.setdefault(tenant, subjects_of(config, tenant, with_grammar=False))

    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        state = Path(name)
        trail, library = open_audit(state / "audit"), AssistantLibrary.opened(state)
        try:
            yield Assistant(
                Ports(
                    config=config,
                    subjects=subjects,
                    values=_no_values,
                    rollup_days=_no_rollups,
                    run=_rows,
                    audit=partial(audited, trail, trio.Lock()),
                    library=library,
                    caches=CacheConfig(exact=False, result_seconds=0).opened(),
                    watermark=_no_watermark,
                    models=(),
                    today=business_day,
                    now=trio.current_time,
                    new_id=lambda: secrets.token_hex(8),
                ),
                library,
            )
        finally:
            library.close()
            trail.close()


async def _rows(tenant: TenantId, choice: SourceChoice) -> ResultSet | Refusal:
    """As many rows as two weeks have days, of the columns that were asked for."""
    del tenant
    await trio.lowlevel.checkpoint()
    columns = tuple(
        ResultColumn(name, ValueType.DATE if name == "day" else ValueType.INTEGER) for name in choice.query.columns
    )
    day = dt.date(2026, 6, 1)
    rows = tuple(
        tuple((day + dt.timedelta(number)).isoformat() if one.type is ValueType.DATE else number for one in columns)
        for number in range(ROWS)
    )
    return ResultSet(columns, rows, is_truncated=False, seconds=0.0)


async def _no_values(tenant: TenantId) -> dict[str, dict[str, tuple[str, ...]]]:
    del tenant
    return {}


async def _no_rollups(tenant: TenantId) -> dict[str, dict[str, dt.date]]:
    del tenant
    return {}


async def _no_watermark(source: str, tenant: TenantId) -> str:
    del source, tenant
    return ""
