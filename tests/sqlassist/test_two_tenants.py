"""Two tenants ask the same questions of one MariaDB, interleaved and at once, cached or not, by words and by models."""

import contextlib
from functools import cache, partial
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.assistant_caches import CacheConfig
from runtime.ids import TenantId
from sqlassist.messages import Event, Stage
from sqlassist.ports import PipelineSettings
from tests.kit.pipeline_world import ALPHA, BETA, ScriptedModel, World, open_world, rows_of
from tests.kit.sql_world import sql_world

pytestmark = [pytest.mark.mariadb, pytest.mark.xdist_group("mariadb")]

MAY = "day >= '2026-05-01' AND day < '2026-06-01'"
# question → what the base tables hold for one tenant; the account that reads them is no tenant's
TRUTH = {
    "revenue in May 2026": f"SELECT SUM(amount) FROM payments WHERE {MAY} AND tenant_id = %s",
    "2026年5月的收入": f"SELECT SUM(amount) FROM payments WHERE {MAY} AND tenant_id = %s",
    "number of payments by server in May 2026": (
        f"SELECT s.name, COUNT(*) FROM payments p JOIN servers s USING (server_id) WHERE {MAY} AND p.tenant_id = %s"
        " GROUP BY 1"
    ),
    "active players in May 2026": f"SELECT COUNT(DISTINCT player_id) FROM sessions WHERE {MAY} AND tenant_id = %s",
    "SELECT MAX(player_id) AS top, COUNT(*) AS n FROM players": (
        "SELECT MAX(player_id), COUNT(*) FROM players WHERE tenant_id = %s"
    ),
    "SELECT name FROM servers": "SELECT name FROM servers WHERE tenant_id = %s",
}
QUESTIONS = list(TRUTH)
NUMBERS = {ALPHA: 1, BETA: 2}


@cache
def truth(question: str, tenant: TenantId) -> frozenset[tuple[str, ...]]:
    """Rows of the base tables, as texts."""
    world = sql_world()
    with contextlib.closing(world.server.admin()) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {world.source.schema}")
        cursor.execute(TRUTH[question], (NUMBERS[tenant],))
        return frozenset(tuple(_text(cell) for cell in row) for row in cursor.fetchall())


def _text(cell: Any) -> str:
    return str(cell) if cell is None or isinstance(cell, str) else f"{float(cell):.2f}"


def told(events: list[Event]) -> frozenset[tuple[str, ...]]:
    """Rows that were shown, as texts."""

    def shown(cell: Any) -> str:
        with contextlib.suppress(ValueError, TypeError):
            return f"{float(cell):.2f}"
        return str(cell)

    return frozenset(tuple(shown(cell) for cell in row) for row in rows_of(events))


STEPS = st.lists(st.tuples(st.sampled_from([ALPHA, BETA]), st.sampled_from(QUESTIONS)), min_size=1, max_size=8)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(STEPS, st.booleans(), st.booleans())
def test_nobody_sees_anothers_rows(steps: list[tuple[TenantId, str]], is_semantic: bool, is_at_once: bool) -> None:
    async def run() -> None:
        caches = CacheConfig(semantic=is_semantic, semantic_threshold=0.5).opened()
        async with open_world(config=sql_world().config, caches=caches) as world:
            if is_at_once:
                async with trio.open_nursery() as nursery:
                    for tenant, question in steps:
                        nursery.start_soon(partial(_asked, world, tenant, question))
            else:
                for tenant, question in steps:
                    await _asked(world, tenant, question)

    trio.run(run)


async def _asked(world: World, tenant: TenantId, question: str) -> None:
    events = await world.ask(question, tenant)
    assert events[-1].stage is Stage.ANSWER, events[-1]
    assert told(events) == truth(question, tenant)


HOSTILE = [
    "SELECT name FROM servers WHERE tenant_id = 2",
    "SELECT name FROM corral_tenant2.servers",
    "SELECT name FROM servers WHERE name IN ('S007', 'S008') OR 1 = 1",
    "SELECT COUNT(*) AS n FROM servers WHERE name > 'S006'",
    "SELECT nickname FROM players ORDER BY player_id DESC",
    "SELECT s.name FROM servers AS s JOIN core.servers AS o ON s.server_id = o.server_id",
]


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=2))
def test_a_model_that_names_the_other_tenant_gets_none_of_his_rows(texts: list[str]) -> None:
    async def run() -> None:
        model = ScriptedModel(texts)
        world_settings = PipelineSettings(metric=False)
        async with open_world(model, config=sql_world().config, settings=world_settings) as world:
            events = await world.ask("which servers are there?", ALPHA)
            words = {str(cell) for row in rows_of(events) for cell in row}
            assert words.isdisjoint({f"S{number:03d}" for number in range(7, 13)})
            foreign = truth("SELECT MAX(player_id) AS top, COUNT(*) AS n FROM players", BETA)
            assert all(f"player_{int(float(top))}" not in words for top, _ in foreign)

    trio.run(run)


async def test_values_of_partitioned_tables_are_sampled_from_their_latest_rows() -> None:
    async with open_world(config=sql_world().config) as world:
        values = (await world.ports.values(ALPHA))["game"]

        assert set(values["product"]) >= {"gems_100", "gems_500"}  # payments are kept by day
        assert set(values["channel"]) == {"ios", "android", "web", "taptap", "adnet"}
        assert "player" not in values  # personal: never sampled
