"""The live events over real websockets: what a viewer gets, what it never gets, and what it costs when nobody looks."""

from pathlib import Path

import attrs
import pytest
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected

from actors.token_store import revoke_token
from inference.config import EngineConfig
from runtime.ids import EngineId
from runtime.telemetry import REGISTRY
from tests.actors.farm.test_api import submitted
from tests.kit.engines import FakeEngine, serve_tcp
from tests.kit.farm import farm_config, open_served, write_scenario
from tests.kit.farm_live import JPEG, open_door, open_viewer

PHONE = "10.0.0.0:5555"
SCREENS = {"fps": 10, "side": 240}


async def test_a_viewer_gets_everything_once_and_then_what_changes(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=2)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door, open_viewer(served, "games.viewer") as viewer:
            hello = await viewer.until("hello")
            assert hello == {
                "type": "hello", "version": 1, "user": "viewer-games", "tenant": "games", "roles": ["viewer"],
            }  # fmt: skip
            await viewer.watch("*")
            farm, phones, runs = await viewer.until("farm"), await viewer.until("phones"), await viewer.until("runs")
            assert farm["playing"] == 1
            assert (phones["whole"], len(phones["phones"])) == (True, 2)
            assert (runs["whole"], [one["run"] for one in runs["runs"]]) == (True, [run])

            door.step += 1
            changed = await viewer.until("phones")

            assert (changed["whole"], changed["gone"]) == (False, [])
            assert [(one["phone"], one["live"]["step"]) for one in changed["phones"]] == [(PHONE, door.step)]
            messages, pictures = await viewer.during(2.5)
            assert [one["type"] for one in messages if one["type"] != "farm"] == [], "nothing has changed"
            assert pictures == [], "none were asked for"


async def test_pictures_come_as_they_are_drawn_and_details_as_they_change(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door, open_viewer(served, "games.viewer") as viewer:
            await viewer.watch(PHONE, screens=SCREENS, detail=PHONE)
            detail = await viewer.until("detail")
            assert (detail["phone"], detail["actions"]) == (PHONE, [{"kind": "tap"}])
            await viewer.during(1.0)
            assert len(viewer.pictures) == 2, "two are on their way, and none was drawn"
            encoded = door.count("screens")
            await viewer.during(1.0)
            assert door.count("screens") == encoded, "what cannot be sent is not made"

            await viewer.say({"type": "seen", "count": 2})
            await viewer.during(0.5)

            assert len(viewer.pictures) == 4
            assert viewer.pictures[0][1] == JPEG % f"SERIAL-{PHONE}".encode()
            seqs = [header["seq"] for header, _ in viewer.pictures]
            assert seqs == sorted(set(seqs))
            assert set(viewer.pictures[0][0]) == {"phone", "seq", "captured_ms_ago", "width", "height"}


async def test_a_hidden_viewer_costs_nothing(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run) as door, open_viewer(served, "games.viewer") as viewer:
            await viewer.watch("*", screens=SCREENS, detail=PHONE)
            await viewer.until("detail")
            await viewer.watch()
            await viewer.during(0.5)
            asked = len(door.asked)

            messages, pictures = await viewer.during(2.0)

            assert (messages, pictures) == ([], [])
            assert len(door.asked) == asked


async def test_three_viewers_share_what_is_looked_up(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with (
            open_door(served, run) as door,
            open_viewer(served, "games.viewer") as one,
            open_viewer(served, "games.operator") as two,
            open_viewer(served, "games.admin") as three,
        ):
            for viewer in (one, two, three):
                await viewer.watch("*", screens={"fps": 1, "side": 240})
            await trio.sleep(3.0)

            assert door.count("status") <= 8
            assert door.count("screens") <= 8


async def test_nothing_of_another_tenant_gets_through(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with (
            open_door(served, run) as door,
            open_viewer(served, "other.viewer") as viewer,
            open_viewer(served, "other.admin") as admin,
        ):
            for one in (viewer, admin):
                await one.watch("*", PHONE, screens=SCREENS, detail=PHONE)
            messages, pictures = await viewer.during(2.0)
            await admin.until("detail")
            await admin.during(0.5)

            told = str(messages)
            assert pictures == []
            assert run not in told
            assert "SERIAL" not in told
            assert [one["runs"] for one in messages if one["type"] == "runs"] == [[]]
            assert admin.pictures, "the farm's own sees all"
            assert run in str(admin.messages)
            assert door.asked


async def test_engines_are_told_as_over_http_and_when_they_change(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        engine = EngineConfig(EngineId("e1"), url=await serve_tcp(FakeEngine(), nursery), probe_every_seconds=0.1)
        config = attrs.evolve(farm_config(tmp_path), engines=(engine,))
        async with open_served(config) as served, open_viewer(served, "games.viewer") as viewer:
            with trio.fail_after(20):
                while served.farm.engines.why_none():
                    await trio.sleep(0.02)
            await viewer.watch("*")
            told = await viewer.until("engines")
            shown = (await served.call("games.viewer", "GET", "/api/v1/engines")).json
            assert told == {"type": "engines", **shown}
            assert [(one["engine"], one["state"]) for one in told["engines"]] == [("e1", "up")]

            await served.call("games.admin", "POST", "/api/v1/engines/e1/drain")
            while (told := await viewer.until("engines"))["engines"][0]["state"] != "drained":
                pass
            messages, _ = await viewer.during(2.5)
            assert [one for one in messages if one["type"] == "engines"] == [], "nothing has changed"

            await viewer.watch()
            await served.call("games.admin", "DELETE", "/api/v1/engines/e1/drain")
            messages, _ = await viewer.during(2.5)
            assert messages == [], "it is hidden"
            await viewer.watch("*")
            assert (await viewer.until("engines"))["engines"][0]["state"] in {"starting", "up"}
        nursery.cancel_scope.cancel()


async def test_only_so_many_viewers_and_only_with_a_token(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path, viewers=1)) as served:
        with pytest.raises(ConnectionRejected) as rejected:
            async with open_viewer(served, "nobody"):
                pass
        assert rejected.value.status_code == 401
        async with open_viewer(served, "games.viewer") as first:
            await first.until("hello")
            with pytest.raises(ConnectionRejected) as rejected:
                async with open_viewer(served, "games.viewer"):
                    pass
            assert rejected.value.status_code == 503
        while served.events.viewers:
            await trio.sleep(0.01)
        async with open_viewer(served, "games.viewer") as second:
            await second.until("hello")


async def test_a_revoked_token_ends_its_connections_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.farm.events.TOKEN_SECONDS", 0.05)
    config = farm_config(tmp_path)
    async with open_served(config) as served, open_viewer(served, "games.viewer") as viewer:
        await viewer.until("hello")
        name = served.tokens["games.viewer"].reveal().split("_")[1]

        revoke_token(Path(config.tokens.file), name)

        assert (await viewer.until("bye"))["why"] == "the token is no longer good"
        with pytest.raises(ConnectionClosed):
            await viewer.take()


async def test_wrong_messages_are_told_and_harm_nobody(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served, open_viewer(served, "games.viewer") as viewer:
        for wrong in ("rubbish", b"\x00", '{"type":"seen","count":-1}'):
            await viewer.say(wrong)
            assert (await viewer.until("error"))["error"]
        await viewer.watch("nowhere:1", detail="nowhere:1")
        assert (await viewer.until("error"))["error"] == "nowhere:1: there is no such phone"
        assert (await viewer.until("phones"))["phones"] == []


async def test_the_farms_end_is_told(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served, open_viewer(served, "games.viewer") as viewer:
        await viewer.until("hello")
        served.events.end()

        assert (await viewer.until("bye"))["why"] == "the farm ends"


async def test_who_does_not_read_is_dropped_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.farm.events.SLOW_SECONDS", 0.5)
    monkeypatch.setattr("tests.kit.farm_live.JPEG", b"x" * 1_000_000 + b"%s")
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path, phones=1)) as served:
        run = await submitted(served)
        async with open_door(served, run), open_viewer(served, "games.viewer") as well:
            async with open_viewer(served, "games.viewer") as slow:
                await slow.watch("*", screens=SCREENS)
                with trio.fail_after(30):
                    while dropped("slow_reader") == 0:  # it says that it draws, and takes nothing
                        await slow.say({"type": "seen", "count": 2})
                        await trio.sleep(0.05)
            await well.watch("*")
            assert (await well.until("phones"))["whole"] is True


def dropped(why: str) -> float:
    return REGISTRY.get_sample_value("actors_farm_dropped_connections_total", {"why": why}) or 0.0
