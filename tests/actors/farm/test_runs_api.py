"""Pictures, comparison, coverage and training data of a farm's runs, over its API."""

import http.client
import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
import trio

from actors.farm.client import FarmRefused, path_of
from tests.kit.farm import ServedFarm, farm_config, open_served, submit, wait_over, write_scenario
from tests.kit.farm_records import FRAMES, jpeg, leave, sha_of
from tests.kit.run_folder import EPISODE


async def played(served: ServedFarm, **more: Any) -> str:
    run = (await submit(served.farm, "game", **more)).run
    await wait_over(served.farm, run)
    return run


async def refused(served: ServedFarm, who: str, path: str, **query: Any) -> tuple[int, str]:
    with pytest.raises(FarmRefused) as error:
        await served.call(who, "GET", path, **query)
    return error.value.status, str(error.value)


async def raw_status(served: ServedFarm, path: str) -> tuple[int, bytes]:
    """Of exactly this path, as no client of ours would send it."""

    def ask() -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
        try:
            connection.putrequest("GET", path, skip_host=False)
            connection.putheader("authorization", f"Bearer {served.tokens['games.admin'].reveal()}")
            connection.endheaders()
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    return await trio.to_thread.run_sync(ask)


async def test_a_filmstrip_and_its_frames(tmp_path: Path) -> None:
    write_scenario(tmp_path, "game")
    leave(tmp_path)
    async with open_served(farm_config(tmp_path)) as served:
        run = await played(served)
        strip = (await served.call("games.viewer", "GET", path_of("runs", run, "filmstrip"))).json
        (episode,) = strip["episodes"]
        one = await served.call("games.viewer", "GET", path_of("runs", run, "frames", episode["frames"][1]["sha"]))
        same = await served.call("games.viewer", "GET", path_of("runs", run, "filmstrip"), episode=EPISODE, attempt=1)

        assert (episode["episode"], episode["phone"], episode["outcome"]) == (EPISODE, "P", "failed")
        assert [frame["sha"] for frame in episode["frames"]] == [sha_of(number) for number in range(FRAMES)]
        assert [frame["at_seconds"] for frame in episode["frames"]] == pytest.approx([0, 0.6, 1.2, 1.8])
        assert [frame["step"] for frame in episode["frames"]] == [0, 1, 2, 3]
        tap = {"kind": "tap", "x": 0.5, "y": 0.5, "why": "plan on frame 0"}
        assert [frame["action"] for frame in episode["frames"]] == [None, tap, None, None]
        assert (one.body, one.headers["content-type"]) == (jpeg(40), "image/jpeg")
        assert same.json == strip


async def test_frames_are_only_what_a_run_kept(tmp_path: Path) -> None:
    """However a path is written that leads elsewhere, and whatever lies in the folder."""
    write_scenario(tmp_path, "game")
    leave(tmp_path)
    async with open_served(farm_config(tmp_path)) as served:
        run = await played(served)
        frames = served.farm.files(run).folder / "frames"
        secret = tmp_path / f"{'a' * 64}.jpg"
        secret.write_bytes(jpeg(7) + b"secret")
        (frames / f"{'a' * 64}.jpg").symlink_to(secret)
        (frames / f"{'b' * 64}.jpg").mkdir()
        (frames / f"{'c' * 64}.jpg").write_text("no picture")
        os.mkfifo(frames / f"{'d' * 64}.jpg")
        names = [
            *(letter * 64 for letter in "abcde"),
            *("..%2f" * 3 + "a" * 64, "%252e%252e%252f" + "a" * 64, "%2e%2e", f"{sha_of(0)}%00", f"{sha_of(0)}.jpg"),
            *(
                sha_of(0).upper(),
                f"%2f{sha_of(0)}",
                f"/etc/{sha_of(0)}",
                f"{sha_of(0)}%0a",
                "..",
                "%00",
                "%ff",
                "x" * 5000,
            ),
        ]
        for name in names:
            status, body = await raw_status(served, f"/api/v1/runs/{run}/frames/{name}")
            assert status == 404, name
            assert b"secret" not in body
        for hostile in ("..%2f..%2fruns", "%2e%2e", "%00", "..%252f", run + "%00"):
            for what in (f"frames/{sha_of(0)}", "filmstrip", "export"):
                assert (await raw_status(served, f"/api/v1/runs/{hostile}/{what}"))[0] == 404, hostile
        for episode in ("../..", "..", "/etc", "\0", "%2e%2e", "x" * 3000):
            assert (await refused(served, "games.admin", path_of("runs", run, "filmstrip"), episode=episode))[0] == 404
        moved = served.farm.files(run).folder
        moved.rename(tmp_path / "elsewhere")
        moved.symlink_to(tmp_path / "elsewhere")
        assert (await raw_status(served, f"/api/v1/runs/{run}/frames/{sha_of(0)}"))[0] == 404
        assert (await raw_status(served, f"/api/v1/runs/{run}/filmstrip"))[0] == 404


async def test_what_is_of_another_tenant_or_removed(tmp_path: Path) -> None:
    write_scenario(tmp_path, "game")
    leave(tmp_path)
    async with open_served(farm_config(tmp_path)) as served:
        run = await played(served)
        mine = [path_of("runs", run, *rest) for rest in (["filmstrip"], ["frames", sha_of(0)], ["export"])]
        for path in mine:
            assert (await refused(served, "other.operator", path))[0] == 404
            assert (await refused(served, "games.viewer", path, attempt=2))[0] == 404
            assert (await refused(served, "games.viewer", path, attempt="x"))[0] == 400
            await served.call("other.admin", "GET", path)
        for query in ({"a": run, "b": run}, {"scenario": "game"}):
            where = path_of("compare") if "a" in query else path_of("coverage")
            assert (await refused(served, "other.operator", where, **query))[0] == 404
        await trio.to_thread.run_sync(served.farm.files(run).remove)
        await served.farm.store.do(lambda store: store.mark_removed(run, "older than 14 days"))
        for path in mine:
            status, said = await refused(served, "games.viewer", path)
            assert (status, "older than 14 days" in said) == (404, True)
        assert (await refused(served, "games.viewer", path_of("compare"), a=run, b=run))[0] == 404
        assert (await refused(served, "games.viewer", path_of("coverage"), scenario="game"))[0] == 404


async def test_two_runs_side_by_side(tmp_path: Path) -> None:
    write_scenario(tmp_path, "game")
    leave(tmp_path)
    async with open_served(farm_config(tmp_path)) as served:
        first = await played(served)
        shutil.rmtree(tmp_path / "template-1")
        shutil.rmtree(tmp_path / "making-1")
        leave(tmp_path, crashes=False, score=9.0)
        other = await played(served)
        said = (await served.call("games.viewer", "GET", path_of("compare"), a=first, b=other)).json

        assert (said["a"], said["b"]) == (first, other)
        assert (said["success"]["a"]["value"], said["success"]["b"]["value"]) == (0.0, 1.0)
        assert said["success"]["differs"] is False  # one episode each says nothing
        assert said["success"]["runs_needed"] > 1
        assert (said["score"]["a"]["value"], said["score"]["b"]["value"]) == (3.0, 9.0)
        assert said["score"]["differs"] is None
        assert said["plan_ms"]["a"]["value"] == 300.0
        for query in ({}, {"a": first}, {"a": first, "b": ""}):
            assert (await refused(served, "games.viewer", path_of("compare"), **query))[0] == 400
        assert (await refused(served, "games.viewer", path_of("compare"), a=first, b="nothing"))[0] == 404


async def test_what_a_scenario_covers(tmp_path: Path) -> None:
    write_scenario(tmp_path, "game")
    leave(tmp_path)
    async with open_served(farm_config(tmp_path)) as served:
        assert (await refused(served, "games.viewer", path_of("coverage"), scenario="game"))[0] == 404
        first = await played(served)
        alone = (await served.call("games.viewer", "GET", path_of("coverage"), scenario="game")).json
        second = await played(served)
        both = (await served.call("games.viewer", "GET", path_of("coverage"), scenario="game")).json

        assert (alone["run"], alone["new_since"]) == (first, None)
        assert [one["frames"] for one in alone["screens"]] == [20]
        assert {one["action"] for one in alone["transitions"]} == {"tap"}
        assert both["run"] == second
        assert both["new_since"] == {"run": first, "screens": [], "transitions": [], "complete": True}
        assert (alone["complete"], both["complete"]) == (True, True)
        assert (await refused(served, "games.viewer", path_of("coverage")))[0] == 400


async def test_plans_as_training_data(tmp_path: Path) -> None:
    write_scenario(tmp_path, "game")
    leave(tmp_path)
    async with open_served(farm_config(tmp_path)) as served:
        run = await played(served)
        path = path_of("runs", run, "export")
        chat = zipfile.ZipFile(io.BytesIO((await served.call("games.viewer", "GET", path)).body))
        parquet = zipfile.ZipFile(io.BytesIO((await served.call("games.viewer", "GET", path, format="parquet")).body))

        lines = chat.read(f"{run}-plans/train.jsonl").splitlines()
        assert all(json.loads(line)["run"] == run for line in lines)
        assert lines
        assert chat.read(f"{run}-plans/frames/{sha_of(0)}.jpg") == jpeg(0)
        parquet.extract(f"{run}-plans/train.parquet", tmp_path)
        (count,) = duckdb.execute(f"SELECT count(*) FROM '{tmp_path}/{run}-plans/train.parquet'").fetchall()[0]
        assert count == len(lines)
        assert (await refused(served, "games.viewer", path, format="csv"))[0] == 400
        assert not list((served.farm.folder / "scratch").iterdir())
        (served.farm.files(run).folder / "events.jsonl").write_text("")
        status, said = await refused(served, "games.viewer", path)
        assert (status, "no plan is left" in said) == (409, True)
