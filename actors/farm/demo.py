"""A farm to look at: eight simulated phones on which something always plays, for one person on this machine."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import attrs
import trio

from actors.farm.client import FarmClient, FarmRefused, FarmUnreachable, path_of
from actors.farm.command import toml_value
from actors.farm.config import FarmAssistant, FarmConfig, FarmListen
from actors.farm.loading import load_farm_config
from actors.farm.serve import serve_farm
from actors.farm.systemd import Notifier
from actors.token_store import Role, TokenStore, TokenStoreError, create_token
from actors.warehouse.config import LoaderConfig
from actors.warehouse.databases import CONFIG_FILE
from actors.warehouse.load import load_once
from actors.warehouse.spool import SpoolWriter
from runtime.ids import TenantId
from runtime.nursery import open_bare_nursery
from runtime.secret import Secret

PHONES = 8
TENANT = TenantId("demo")
SCENARIO = "quickstart"
LOOK_SECONDS = 5.0
_CONFIG = """# Made by corral farm demo: change what you like, it is not written again.
[farm]
scenarios = {scenarios}

[listen]
port = {port}

[[phones]]
name = "sim"
kind = "simulated"
count = {phones}
labels = ["demo"]

[[engines]]
id = "rehearsal"
model = "rehearsal-7b"
launch = {{ kind = "rehearsal", args = ["--ttft-ms", "120", "--tpot-ms", "6"] }}

[limits]
drain_seconds = 2
"""
_ASSISTANT = """# Made by corral farm demo at each start.
[sql]
file = {databases}

[state]
folder = "assistant"
"""


def make_demo(folder: Path, scenarios: Path, port: int | None) -> tuple[Path, Secret]:
    """A folder with the file of a farm and a token for it; what is there already stays.

    Returns:
        (the farm's file, an admin's token).

    Raises:
        TokenStoreError: the folder cannot be written, or its file of tokens cannot be used.
    """
    file, kept, tokens = folder / "farm.toml", folder / "token", folder / "tokens.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            written = toml_value(str(scenarios.absolute()))
            listened = FarmListen().port if port is None else port
            file.write_text(_CONFIG.format(scenarios=written, port=listened, phones=PHONES), encoding="utf-8")
        if kept.exists() and tokens.exists():
            token = Secret(kept.read_text("utf-8").strip())
            store = TokenStore(tokens)
            store.load()
            if store.record_for(token.reveal()) is not None:
                return file, token
        now = datetime.now(UTC)
        _, token = create_token(tokens, user="demo", tenant=TENANT, roles=[Role.ADMIN], now=now)
        descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(token.reveal() + "\n")
    except OSError as error:
        raise TokenStoreError(f"{folder} cannot be used: {error.strerror}") from error
    return file, token


def with_assistant(config: FarmConfig, folder: Path) -> FarmConfig:
    """The farm with an assistant over the metrics of its own runs, of which there are none yet; it needs no model.

    Raises:
        OSError, PublicationFailed: the folder cannot be written.
    """
    if config.assistant is not None:
        return config
    warehouse = Path(config.farm.folder) / "runs" / "warehouse"
    databases = warehouse / CONFIG_FILE
    if not databases.is_file():
        about = {"tenant": TENANT, "run_id": "demo", "scenario": SCENARIO}
        empty = SpoolWriter(warehouse / "spool" / TENANT, "demo", about)
        empty.append([], 0.0)
        empty.seal()
        load_once(LoaderConfig(str(warehouse)))
    file = folder / "assistant.toml"
    file.write_text(_ASSISTANT.format(databases=toml_value(str(databases))), encoding="utf-8")
    return attrs.evolve(config, assistant=FarmAssistant(str(file)))


async def serve_demo(file: Path, config: FarmConfig, token: Secret, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, with something that plays.

    Args:
        file: The farm's.
        config: As loaded of it.
        token: An admin's.
        tell: Gets the link of the wall, which logs in by itself.
    """
    async with open_bare_nursery() as nursery:

        def ready(url: str) -> None:
            tell(f"{url}/wall/#token={token.reveal()}")
            nursery.start_soon(_keep_playing, FarmClient(url, token))

        await serve_farm(file, config, notifier=Notifier(None, None), on_ready=ready)
        nursery.cancel_scope.cancel()


def run_demo(folder: Path, scenarios: Path, port: int | None, tell: Callable[[str], None]) -> None:
    """All of it; raises what `make_demo`, `load_farm_config` and `serve_farm` do.

    Args:
        folder: The demo's.
        scenarios: Whose runs play, where the farm's file is made.
        port: Instead of the one of the farm's file.
        tell: As in `serve_demo`.
    """
    file, token = make_demo(folder, scenarios, port)
    config = with_assistant(load_farm_config(file), folder.absolute())
    if port is not None:
        config = attrs.evolve(config, listen=attrs.evolve(config.listen, port=port))
    trio.run(partial(serve_demo, file, config, token, tell))


async def _keep_playing(client: FarmClient) -> None:
    """One run plays and one waits, so that the queue has something to show."""
    while True:
        await trio.to_thread.run_sync(_submit, client, abandon_on_cancel=True)
        await trio.sleep(LOOK_SECONDS)


def _submit(client: FarmClient) -> None:
    """What is missing."""
    try:
        runs = client.call("GET", path_of("runs"), query={"limit": 50}).json["runs"]
        waiting = [run for run in runs if run["state"] in ("queued", "running")]
        for _ in range(2 - len(waiting)):
            client.call("POST", path_of("runs"), {"scenario": SCENARIO})
    except (FarmRefused, FarmUnreachable):
        pass  # it is about to end, or somebody changed its scenarios: the wall says so
