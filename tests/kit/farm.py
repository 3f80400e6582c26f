"""Farms for tests: phones that nobody looks for, scenarios whose runs are `tests.kit.farm_run`."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve
from starlette.applications import Starlette

from actors.analyst_limits import Admission, AssistantLimits
from actors.answering import Answering
from actors.farm.access import Gate
from actors.farm.api import Api
from actors.farm.callers import Callers, callers_for
from actors.farm.client import Answer, FarmClient
from actors.farm.config import AdbPool, FarmConfig, FarmFolders, FarmLimits, FarmListen
from actors.farm.daemon import Farm, open_farm
from actors.farm.engines_api import EnginesApi
from actors.farm.events import EventsDesk
from actors.farm.pages import wall_routes
from actors.farm.pin_desk import PinDesk
from actors.farm.records import RunRecord
from actors.farm.routes import farm_app
from actors.farm.serve import open_socket
from actors.farm.submission import parse_submission
from actors.farm.ticketing import ticket_key
from actors.farm.work import RunState
from actors.listen_config import TokensFile
from actors.login_limits import FailedLogins
from actors.notice_sender import NoticeSender
from actors.token_store import Role, TokenStore, create_token
from runtime.ids import TenantId
from runtime.secret import Secret

PROGRAM = (sys.executable, str(Path(__file__).with_name("farm_run.py")))
PATIENCE_SECONDS = 60.0
SCENARIO = """
name = "{name}"
description = "{does}"
[planner]
enabled = false
[apps.battler]
package = "dev.corral.battler"
goal = "Survive."
[[phones]]
kind = "simulated"
app = "battler"
count = {phones}
"""


def write_scenario(folder: Path, name: str, does: str = "", phones: int = 1) -> None:
    """`folder/scenarios/name.toml`."""
    (folder / "scenarios").mkdir(exist_ok=True)
    (folder / "scenarios" / f"{name}.toml").write_text(SCENARIO.format(name=name, does=does, phones=phones))


def farm_config(folder: Path, *, phones: int = 4, **limits: Any) -> FarmConfig:
    """Phones `10.0.0.0:5555`, ...; the farm's own folder is `folder/farm`."""
    addresses = tuple(f"10.0.0.{number}:5555" for number in range(phones))
    return FarmConfig(
        phones=(AdbPool("lab", addresses, labels=("lab",)),),
        farm=FarmFolders(str(folder / "farm"), str(folder / "scenarios")),
        tokens=TokensFile(str(folder / "tokens.json")),
        limits=FarmLimits(**limits),
    )


async def submit(farm: Farm, scenario: str, *, tenant: str = "games", **more: Any) -> RunRecord:
    """As an operator does."""
    found = parse_submission({"scenario": scenario, **more})
    return await farm.submit(found, tenant=TenantId(tenant), user="ann")


async def wait_run(farm: Farm, run: str, condition: Callable[[RunRecord], bool]) -> RunRecord:
    """Until the run is so."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            record = await farm.store.do(lambda store: store.run(run))
            if condition(record):
                return record
            await trio.sleep(0.02)


async def wait_over(farm: Farm, run: str) -> RunRecord:
    """Until it has its result."""
    return await wait_run(farm, run, lambda one: one.is_over)


async def wait_playing(farm: Farm, run: str) -> RunRecord:
    """Until its process has said that it plays."""
    record = await wait_run(farm, run, lambda one: one.state is RunState.RUNNING)
    attempt = (await farm.store.do(lambda store: store.attempts(run)))[-1].attempt
    log = trio.Path(farm.files(attempt).log)
    with trio.fail_after(PATIENCE_SECONDS):
        while not await log.exists() or b"playing" not in await log.read_bytes():
            await trio.sleep(0.02)
    return record


@attrs.define(eq=False)
class ServedFarm:
    """A farm behind its API, with tokens of two tenants."""

    farm: Farm
    url: str
    tokens: dict[str, Secret]
    app: Starlette
    callers: Callers
    events: EventsDesk

    async def call(self, who: str, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        """As somebody of `tokens`; raises FarmRefused."""
        client = FarmClient(self.url, self.tokens[who])
        return await trio.to_thread.run_sync(partial(client.call, method, path, body, query))


@asynccontextmanager
async def open_served(
    config: FarmConfig,
    *,
    answering: Answering | None = None,
    program: tuple[str, ...] = PROGRAM,
    **limits: Any,
) -> AsyncIterator[ServedFarm]:
    """On a port of its own, in this process; with something that answers, questions may be pinned.

    `program` is what plays the runs.
    """
    now = datetime.now(UTC)
    path = Path(config.tokens.file)
    tokens = {"nobody": Secret("corral_000000000000_" + "0" * 64)}
    for tenant in ("games", "other"):
        for role in Role:
            made = create_token(path, user=f"{role}-{tenant}", tenant=TenantId(tenant), roles=[role], now=now)
            tokens[f"{tenant}.{role}"] = made[1]
    store = TokenStore(path)
    store.load()
    sock = open_socket(FarmListen(port=0))
    server = Config()
    server.accesslog = server.errorlog = None
    server.graceful_timeout = 1.0
    stop = trio.Event()
    with sock:
        async with open_farm(config, program=program) as farm, trio.open_nursery() as nursery:
            logins = FailedLogins(limits.get("failed_logins_per_minute", 100_000))
            gate = Gate(callers_for(store, logins, ticket_key(Path(config.farm.folder))))
            pins = None
            if answering is not None:
                sender = NoticeSender([], farm.clock, 1.0)
                pins = PinDesk(farm.store, answering, Admission(AssistantLimits()), store, sender, farm.clock)
                nursery.start_soon(pins.run)
            api = Api(farm, pins)
            events = EventsDesk(api.live, gate, EnginesApi(farm).view_for)
            app = farm_app(api, gate, events, wall_routes(config.listen.origins))
            serve = partial(worker_serve, ASGIWrapper(cast("Any", app)), server, sockets=Sockets([], [sock], []))
            await nursery.start(partial(serve, shutdown_trigger=stop.wait))
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            try:
                yield ServedFarm(farm, url, tokens, app, gate.callers, events)
            finally:
                api.live.close()
            events.end()
            stop.set()
            nursery.cancel_scope.cancel()
