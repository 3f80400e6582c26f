"""`corral devices`: phones in every state, through the user's adb server, our own, and runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner

from actors.cli.main import corral
from actors.control import open_control
from actors.devices.adb.client import AdbClient
from actors.devices.adb.method_memory import MethodMemory
from actors.devices_look import DevicesLook, NothingToLookAt, open_look, runs_under_way, user_port
from actors.devices_view import READY, SILENT, DeviceRow
from actors.rehearsal.phone.auth import AuthMode
from actors.scenario import Scenario, parse_scenario
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import probe_spec, simulated_phones

SCENARIO = """
name = "farm"
[planner]
enabled = false
[apps.game]
goal = "play"
package = "dev.corral.probe"
[[phones]]
kind = "adb"
app = "game"
addresses = {addresses}
capture = "png"
"""


def scenario_with(*addresses: str) -> Scenario:
    return parse_scenario(SCENARIO.format(addresses=json.dumps(addresses)).encode(), "farm.toml")


def by_address(rows: list[DeviceRow]) -> dict[str, DeviceRow]:
    assert len({row.address for row in rows}) == len(rows)
    return {row.address: row for row in rows}


def looking(folder: Path, port: int | None, scenario: Scenario | None = None) -> Any:
    return open_look(scenario, runs=folder, port=port, memory=MethodMemory())


@any_adb
async def test_what_the_users_server_lists_is_asked_and_left_as_it_was(adb_binary: Path, tmp_path: Path) -> None:
    specs = [probe_spec("WELL"), probe_spec("FROZEN"), probe_spec("LOCKED", auth=AuthMode.NEVER), probe_spec("GONE")]
    async with genuine_adb(adb_binary, tmp_path / "home") as adb, simulated_phones(specs) as phones:
        well, frozen, locked, gone = phones
        await adb.connect(well.address, frozen.address, gone.address)
        await adb.server.client.connect(locked.address)
        await adb.wait_state("unauthorized", locked.address)
        frozen.freeze()
        await gone.power_off()
        with trio.fail_after(30):
            while {e.serial: e.state for e in await adb.server.client.devices()}.get(gone.address) == "device":
                await trio.sleep(0.05)
        before = await listed(adb.server.client)

        async with looking(tmp_path, adb.server.port) as look:
            rows = by_address(await look.look())

        assert await listed(adb.server.client) == before
        row = rows[well.address]
        assert (row.phone, row.state, row.model, row.android) == ("WELL", READY, "Corral One", "13")
        assert (row.width, row.height, row.rotation, row.density) == (360, 640, 0, 160)
        assert (row.capture_method, row.is_well, row.used_by) == ("raw", True, "")
        assert row.capture_ms is not None
        assert row.capture_ms > 0
        assert row.probe_age_seconds is not None
        assert row.probe_age_seconds < 30
        assert rows[frozen.address].state == SILENT
        assert "restart the phone" in rows[frozen.address].advice
        assert rows[locked.address].state == "unauthorized"
        assert "allow this computer" in rows[locked.address].advice
        if gone.address in rows:  # adb 36 forgets a phone that hung up, adb 29 lists it as offline
            assert rows[gone.address].state == "offline"
            assert f"adb connect {gone.address}" in rows[gone.address].advice
        frozen.thaw()


async def listed(client: AdbClient) -> dict[str, str]:
    return {entry.serial: entry.state for entry in await client.devices()}


@pytest.mark.adb
@pytest.mark.xdist_group("adb")
async def test_phones_of_a_scenario_are_reached_by_a_server_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("actors.devices_look.ATTACH_SECONDS", 3.0)
    async with simulated_phones([probe_spec("WELL"), probe_spec("OFF")]) as (well, off):
        await off.power_off()
        async with looking(tmp_path, None, scenario_with(well.address, off.address)) as look:
            rows = by_address(await look.look())
            again = by_address(await look.look())

    assert (rows[well.address].state, rows[well.address].capture_method) == (READY, "png")
    assert rows[well.address].seen_through == again[well.address].seen_through == "an adb server of our own"
    assert rows[off.address].state in ("missing", "offline")
    assert rows[off.address].advice
    assert list(rows) == [well.address, off.address], "in the scenario's order"


@any_adb
async def test_two_addresses_of_one_phone_are_told(adb_binary: Path, tmp_path: Path) -> None:
    async with genuine_adb(adb_binary, tmp_path / "home") as adb, simulated_phones([probe_spec("TWIN")]) as (phone,):
        other = f"localhost:{phone.port}"
        await adb.connect(phone.address, other)
        async with looking(tmp_path, adb.server.port) as look:
            first, second = await look.look()

    assert {first.address, second.address} == {phone.address, other}
    assert (first.is_well, second.advice) == (True, f"the same phone as {first.address}: name it once")


# --- runs

PLAYING: dict[str, Any] = {
    "phone": "WELL",
    "app": "game",
    "state": "playing",
    "capture_ms": 12.5,
    "capture_method": "scrcpy",
    "model": "M",
    "width": 720,
    "height": 1280,
    "rotation": 0,
    "probe_age_seconds": 0.4,
}


def telling(*phones: Mapping[str, Any], scenario: str = "farm") -> Any:
    async def answer(_: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"ok": True, "run": "r", "scenario": scenario, "phones": [dict(phone) for phone in phones]}

    return answer


@attrs.define
class Untouchable:
    """No phone is asked anything."""

    async def __call__(self, *_: Any) -> DeviceRow:
        raise AssertionError("a phone that a run plays on was touched")


async def test_a_phone_that_a_run_plays_on_is_told_of_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DevicesLook, "_probed", Untouchable())
    folder = tmp_path / "runs" / "run-1"
    folder.mkdir(parents=True)
    told = PLAYING | {"address": "10.0.0.7:5555"}
    async with open_control(folder, telling(told, PLAYING | {"phone": "SIM", "address": "127.0.0.1:16000"})):
        (run,) = await runs_under_way(tmp_path / "runs")
        async with looking(tmp_path / "runs", None, scenario_with("10.0.0.7:5555")) as look:
            row, simulated = await look.look()
        async with looking(tmp_path / "runs", None) as look:
            assert await look.look() == [row, simulated]
    async with looking(tmp_path / "runs", None) as look:
        with pytest.raises(NothingToLookAt, match="no corral run is under way"):
            await look.look()

    assert (run.scenario, run.folder) == ("farm", folder)
    assert (row.phone, row.state, row.used_by, row.app) == ("WELL", "playing", str(folder), "game")
    assert (row.capture_method, row.capture_ms, row.probe_age_seconds, row.is_well) == ("scrcpy", 12.5, 0.4, True)
    assert simulated.address == "127.0.0.1:16000"


@pytest.mark.parametrize(
    "told",
    [
        {"phone": 3, "state": "playing"},
        {"phone": "P"},
        {},
    ],
)
async def test_what_a_run_tells_is_data(told: Mapping[str, Any], tmp_path: Path) -> None:
    async with open_control(tmp_path, telling(told, PLAYING | {"width": "wide", "capture_ms": True})):
        (run,) = await runs_under_way(tmp_path)

    (row,) = run.rows
    assert (row.phone, row.width, row.capture_ms) == ("WELL", None, None)


@pytest.mark.parametrize(
    ("environ", "port"),
    [
        ({}, 5037),
        ({"ANDROID_ADB_SERVER_PORT": "6000"}, 6000),
        ({"ANDROID_ADB_SERVER_PORT": "x"}, 5037),
        ({"ADB_SERVER_SOCKET": "tcp:6001", "ANDROID_ADB_SERVER_PORT": "6000"}, 6001),
        ({"ADB_SERVER_SOCKET": "tcp:localhost:6001"}, 6001),
        ({"ADB_SERVER_SOCKET": "tcp:farm.example:6001"}, None),
    ],
)
def test_the_users_server_is_where_adb_looks_for_it(environ: Mapping[str, str], port: int | None) -> None:
    assert user_port(environ) == port


# --- the command


@any_adb
async def test_the_command_says_it_in_json_and_as_a_table(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [probe_spec("WELL"), probe_spec("LOCKED", auth=AuthMode.NEVER)]
    async with genuine_adb(adb_binary, tmp_path / "home") as adb, simulated_phones(specs) as (well, locked):
        await adb.connect(well.address)
        await adb.server.client.connect(locked.address)
        await adb.wait_state("unauthorized", locked.address)
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.server.port))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.delenv("ADB_SERVER_SOCKET", raising=False)

        async def cli(*arguments: str) -> Any:
            command = ["devices", "--runs", str(tmp_path / "none"), *arguments]
            return await trio.to_thread.run_sync(lambda: CliRunner().invoke(corral, command))

        lines, table = await cli("--json"), await cli()
        monkeypatch.setenv("COLUMNS", "60")
        narrow = await cli()
        await adb.server.client.disconnect(locked.address)
        all_well = await cli("--json")

    rows = {row["phone"] or row["address"]: row for row in map(json.loads, lines.output.splitlines())}
    assert (lines.exit_code, table.exit_code, all_well.exit_code) == (1, 1, 0)
    assert (rows["WELL"]["state"], rows[locked.address]["state"]) == ("ready", "unauthorized")
    assert rows["WELL"]["at"] > 1.7e9
    assert "WELL" in table.output
    assert "360x640" in table.output
    assert "…" not in narrow.output.splitlines()[1].split()[0], "who it is must be readable whole"
    assert f"{locked.address}: unauthorized; allow this computer" in table.output


def test_nothing_there_and_a_wrong_scenario_end_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADB_SERVER_SOCKET", "tcp:nowhere.example:1")
    nothing = CliRunner().invoke(corral, ["devices", "--runs", str(tmp_path)])
    (tmp_path / "s.toml").write_text("name = 3")
    wrong = CliRunner().invoke(corral, ["devices", str(tmp_path / "s.toml")])

    assert nothing.exit_code == 3
    assert nothing.output.startswith("Error: no adb server answers on this host, and no corral run is under way")
    assert (wrong.exit_code, "$.name" in wrong.output) == (2, True)
