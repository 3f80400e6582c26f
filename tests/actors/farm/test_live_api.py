"""Phones while they play, over HTTP: who sees what, who may take over, and what is noted."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.farm.client import FarmRefused, path_of
from actors.farm.config import AdbPool, SimulatedPool
from tests.actors.farm.test_api import status_of, submitted
from tests.kit.farm import farm_config, open_served, wait_playing, wait_run, write_scenario
from tests.kit.farm_live import JPEG, open_door

PHONE = "10.0.0.0:5555"
TAP = {"kind": "tap", "x": 0.5, "y": 0.5}


def phone_path(*parts: str, phone: str = PHONE) -> str:
    return path_of("phones", phone, *parts)


async def test_a_phone_is_shown_taken_over_used_and_handed_back(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door:
            (row,) = (await served.call("games.viewer", "GET", path_of("phones"))).json["phones"]
            assert (row["run"], row["live"]["state"], row["taken_over_by"]) == (run, "playing", None)
            shown = (await served.call("games.viewer", "GET", phone_path())).json
            assert shown["actions"] == [{"kind": "tap"}]
            assert shown["phone"] == PHONE
            screen = await served.call("games.viewer", "GET", phone_path("screen"), side=240)
            assert screen.body == JPEG % f"SERIAL-{PHONE}".encode()
            assert screen.headers["content-type"] == "image/jpeg"
            assert float(screen.headers["x-captured-ms-ago"]) >= 5.0

            taken = (await served.call("games.operator", "POST", phone_path("take-over"))).json
            assert (taken["by"], taken["since"]) == ("operator-games", "2027-01-15T08:00:00Z")
            (row,) = (await served.call("games.viewer", "GET", path_of("phones"))).json["phones"]
            assert row["taken_over_by"] == "operator-games"
            used = (await served.call("games.operator", "POST", phone_path("input"), TAP)).json
            assert used == {"done": True, "ms": 12.5}
            typed = {"kind": "text", "text": "hunter2"}
            await served.call("games.operator", "POST", phone_path("input"), typed)
            assert door.asked[-1]["input"] == typed
            await served.call("games.operator", "DELETE", phone_path("take-over"))
            assert door.asked[-1]["force"] is False
            noted = (await served.call("games.admin", "GET", "/api/v1/audit")).json["actions"]

        told = [(one["action"], one["target"], one["detail"]) for one in reversed(noted)][1:]
        assert told == [
            ("take over phone", PHONE, run),
            ("use phone", PHONE, f"{run} tap"),
            ("use phone", PHONE, f"{run} text"),
            ("hand back phone", PHONE, run),
        ]
        assert "hunter2" not in str(noted)


async def test_another_tenants_run_shows_nothing_and_takes_nothing(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door:
            shown = (await served.call("other.viewer", "GET", phone_path())).json
            assert (shown["state"], shown["attempt"], shown["run"], shown["live"]) == ("busy", None, None, None)
            assert shown["actions"] == []
            for method, path, body in (
                ("GET", phone_path("screen"), None),
                ("POST", phone_path("take-over"), None),
                ("DELETE", phone_path("take-over"), None),
                ("POST", phone_path("input"), TAP),
            ):
                assert await status_of(served, "other.operator", method, path, body) == 404
                assert await status_of(served, "other.admin", method, path, body) == 200
            assert {one.get("by") for one in door.asked if "by" in one} == {"admin-other (other)"}
            assert await status_of(served, "games.viewer", "POST", phone_path("take-over")) == 403
            assert await status_of(served, "games.viewer", "POST", phone_path("input"), TAP) == 403


async def test_a_run_that_refuses_is_a_conflict_with_its_words(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door:
            door.refuse = "bob has taken over P"
            for path, body in ((phone_path("take-over"), None), (phone_path("input"), TAP)):
                with pytest.raises(FarmRefused, match=r"^bob has taken over P$") as refused:
                    await served.call("games.operator", "POST", path, body)
                assert refused.value.status == 409


async def test_a_run_that_does_not_answer_is_told_without_its_folder(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        await wait_playing(served.farm, run)
        for doing, body in (("pause", {"hold": True}), ("resume", None)):
            with pytest.raises(FarmRefused) as refused:
                await served.call("games.operator", "POST", path_of("runs", run, doing), body)
            assert (refused.value.status, str(refused.value)) == (409, "no run is under way there")


@pytest.mark.parametrize("body", [{}, {"kind": "root"}, {**TAP, "x": 2}, {"kind": "text", "text": "x" * 501}])
async def test_a_wrong_input_reaches_no_run_and_is_not_noted(tmp_path: Path, body: Any) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door:
            assert await status_of(served, "games.operator", "POST", phone_path("input"), body) == 400
            assert door.asked == []
            noted = (await served.call("games.admin", "GET", "/api/v1/audit")).json["actions"]
            assert [one["action"] for one in noted] == ["submit"]


async def test_phones_that_are_not_there_or_idle_or_not_its_own_are_not_there(tmp_path: Path) -> None:
    config = farm_config(tmp_path, phones=1)
    config = attrs.evolve(config, phones=(*config.phones, AdbPool("theirs", ("9.9.9.9:1",), tenants=("other",))))
    async with open_served(config) as served:
        for phone in ("9.9.9.9:1", "nowhere:1"):
            assert await status_of(served, "games.viewer", "GET", phone_path(phone=phone)) == 404
            assert await status_of(served, "games.operator", "POST", phone_path("take-over", phone=phone)) == 404
        assert await status_of(served, "games.viewer", "GET", phone_path()) == 200
        assert await status_of(served, "games.viewer", "GET", phone_path("screen")) == 404
        assert await status_of(served, "games.viewer", "GET", phone_path("screen") + "?side=99999") == 400
        assert await status_of(served, "games.viewer", "GET", phone_path("screen") + "?side=big") == 400


async def test_simulated_phones_are_those_that_the_run_started_in_order(tmp_path: Path) -> None:
    write_scenario(tmp_path, "two", "seconds=60", phones=2)
    config = attrs.evolve(farm_config(tmp_path), phones=(SimulatedPool("sim", 2),))
    async with open_served(config) as served:
        run = await submitted(served, scenario="two")
        async with open_door(served, run) as door:
            door.addresses = ("127.0.0.1:16000", "127.0.0.1:16001")  # as a run calls them
            rows = (await served.call("games.viewer", "GET", path_of("phones"))).json["phones"]
            assert [row["live"]["phone"] for row in rows] == ["SERIAL-127.0.0.1:16000", "SERIAL-127.0.0.1:16001"]


async def test_a_run_that_plays_is_held_and_goes_on(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door:
            held = await served.call("games.operator", "POST", path_of("runs", run, "pause"), {"hold": True})
            assert held.json["state"] == "running"
            assert door.asked[-1] == {"command": "hold", "by": "operator-games"}
            shown = (await served.call("games.viewer", "GET", path_of("runs", run))).json
            assert (shown["state"], shown["held"]) == ("running", "stands still: held by operator-games")
            assert shown["reason"] == shown["held"] == held.json["held"]
            await served.call("games.operator", "POST", path_of("runs", run, "resume"))
            assert [one["command"] for one in door.asked[-2:]] == ["resume", "go_on"]
            assert (await served.call("games.viewer", "GET", path_of("runs", run))).json["held"] is None
            wrong = path_of("runs", run, "pause")
            assert await status_of(served, "games.operator", "POST", wrong, {"hold": "yes"}) == 400
            assert await status_of(served, "other.operator", "POST", wrong, {"hold": True}) == 404
        await wait_playing(served.farm, run)
        assert await status_of(served, "games.operator", "POST", path_of("runs", run, "pause"), {"hold": True}) == 409
        await served.call("games.operator", "POST", path_of("runs", run, "cancel"))
        await wait_run(served.farm, run, lambda one: one.is_over)
        assert await status_of(served, "games.operator", "POST", path_of("runs", run, "pause"), {"hold": True}) == 409
