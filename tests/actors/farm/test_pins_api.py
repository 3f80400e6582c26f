"""Pins over HTTP: from a question to its answer, and who sees whose."""

import sqlite3
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import trio

from actors.farm.client import FarmRefused, path_of
from actors.farm.database import open_database
from actors.farm.migrations import MIGRATIONS
from actors.farm.pins_api import NO_ASSISTANT, PIN_SCHEMAS, USER_PINS
from actors.farm.store import Store
from actors.token_store import revoke_token
from tests.kit.farm import ServedFarm, farm_config, open_served
from tests.kit.pins import NumberAnswering

PINS = path_of("pins")
BODY = {
    "question": "crashes by server",
    "title": "崩溃",
    "schedule": {"at": "08:30", "zone": "Asia/Shanghai"},
    "threshold": {"column": "n", "above": 0},
}


async def refused(served: ServedFarm, who: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
    try:
        await served.call(who, method, path, body)
    except FarmRefused as error:
        return error.status, str(error)
    return 200, ""


async def until_answered(served: ServedFarm, who: str, pin: str) -> dict[str, Any]:
    with trio.fail_after(30):
        while True:
            shown: dict[str, Any] = (await served.call(who, "GET", path_of("pins", pin))).json
            if shown["last"] is not None and shown["state"] == "waiting":
                return shown
            await trio.sleep(0.01)


async def test_from_a_question_to_its_answer(tmp_path: Path) -> None:
    answering = NumberAnswering([3, 5])
    async with open_served(farm_config(tmp_path), answering=answering) as served:
        jsonschema.validate(BODY, PIN_SCHEMAS["Pin"])
        made = (await served.call("games.viewer", "POST", PINS, BODY)).json
        shown = await until_answered(served, "games.viewer", made["id"])
        (listed,) = (await served.call("games.viewer", "GET", PINS)).json["pins"]
        await served.call("games.viewer", "POST", path_of("pins", made["id"], "run"))
        with trio.fail_after(30):
            while len(answering.asked) < 2:
                await trio.sleep(0.01)
        await until_answered(served, "games.viewer", made["id"])
        removed = (await served.call("games.viewer", "DELETE", path_of("pins", made["id"]))).json

        assert {key: shown[key] for key in BODY} == BODY
        assert (shown["user"], shown["tenant"], shown["beyond"]) == ("viewer-games", "games", True)
        assert shown["due_at"].endswith("T00:30:00Z")
        assert shown["last"]["rows"] == [["server 0", 3], ["server 1", 5]]
        assert (listed["last"]["state"], listed["last"]["summary"]) == ("succeeded", "2 servers")
        assert "rows" not in listed["last"]
        assert removed == {"id": made["id"], "removed": True}
        assert (await served.call("games.viewer", "GET", PINS)).json == {"pins": []}
        actions = (await served.call("games.admin", "GET", path_of("audit"))).json["actions"]
        assert [one["action"] for one in actions] == ["unpin question", "ask pinned question", "pin question"]


async def test_a_pin_is_its_owners(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path), answering=NumberAnswering()) as served:
        made = (await served.call("games.viewer", "POST", PINS, BODY)).json["id"]
        path = path_of("pins", made)
        await until_answered(served, "games.viewer", made)
        for who in ("games.operator", "other.viewer", "other.operator"):
            assert (await served.call(who, "GET", PINS)).json == {"pins": []}
            for method, at in (("GET", path), ("DELETE", path), ("POST", f"{path}/run")):
                assert (await refused(served, who, method, at))[0] == 404, (who, method)
        assert (await served.call("other.admin", "GET", path)).json["id"] == made
        assert await refused(served, "other.admin", "POST", f"{path}/run") == (200, "")
        await until_answered(served, "games.viewer", made)
        kept = await served.farm.store.do(lambda store: store.pins.find(made))
        assert kept is not None
        assert kept.user == "viewer-games"
        for method, at in (("GET", path), ("GET", PINS), ("POST", PINS), ("DELETE", path), ("POST", f"{path}/run")):
            assert (await refused(served, "nobody", method, at))[0] == 401
        assert (await served.call("other.admin", "DELETE", path)).json["removed"]


async def test_a_revoked_token_pauses_its_pin(tmp_path: Path) -> None:
    config = farm_config(tmp_path)
    async with open_served(config, answering=NumberAnswering()) as served:
        made = (await served.call("games.viewer", "POST", PINS, BODY)).json["id"]
        await until_answered(served, "games.viewer", made)
        revoke_token(Path(config.tokens.file), served.tokens["games.viewer"].reveal().split("_")[1])
        await served.call("games.admin", "POST", path_of("pins", made, "run"))
        with trio.fail_after(30):
            while True:
                shown = (await served.call("games.admin", "GET", path_of("pins", made))).json
                if shown["state"] == "paused":
                    break
                await trio.sleep(0.01)

        assert "no longer good" in shown["paused"]
        assert shown["due_at"] is None
        assert (await refused(served, "games.admin", "POST", path_of("pins", made, "run")))[0] == 409


async def test_wrong_pins_and_too_many(tmp_path: Path) -> None:
    answering = NumberAnswering(waits=True)
    async with open_served(farm_config(tmp_path, body_bytes=10_000), answering=answering) as served:
        assert (await refused(served, "games.viewer", "POST", PINS, {}))[0] == 422
        assert (await refused(served, "games.viewer", "POST", PINS, {**BODY, "sql": "x" * 11_000}))[0] == 413
        assert (await refused(served, "games.viewer", "POST", PINS, {**BODY, "schedule": {"every_minutes": 1}}))[
            0
        ] == 422
        assert (await refused(served, "games.viewer", "GET", path_of("pins", "../runs")))[0] == 404
        first = (await served.call("games.viewer", "POST", PINS, BODY)).json["id"]
        with trio.fail_after(30):
            while not answering.asked:
                await trio.sleep(0.01)
        assert (await refused(served, "games.viewer", "POST", path_of("pins", first, "run")))[0] == 409
        for _ in range(USER_PINS - 1):
            await served.call("games.viewer", "POST", PINS, BODY)
        status, why = await refused(served, "games.viewer", "POST", PINS, BODY)

        assert (status, why) == (409, f"this user has {USER_PINS} pins already: remove one first")


async def test_a_farm_without_an_assistant_says_so(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        one = path_of("pins", "x")
        for method, path in (("GET", PINS), ("POST", PINS), ("GET", one), ("DELETE", one), ("POST", f"{one}/run")):
            assert await refused(served, "games.viewer", method, path) == (404, NO_ASSISTANT)


def test_a_state_of_the_version_before_takes_pins(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    number = next(index for index, script in enumerate(MIGRATIONS) if "CREATE TABLE pins" in script)
    old = sqlite3.connect(path)
    for script in MIGRATIONS[:number]:
        old.executescript(script)
    old.execute(f"PRAGMA user_version = {number}")
    old.execute("INSERT INTO pauses VALUES ('P1', 'ann', 1.0)")
    old.commit()
    old.close()
    database = open_database(path)
    store = Store(database)

    assert store.pins.all(10) == []
    assert set(store.pauses()) == {"P1"}
    database.close()
