"""Findings of a farm: read of what attempts leave, listed, marked, and seen again."""

import io
import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import jsonschema  # type: ignore[import-untyped]
import pytest
import trio
from click.testing import CliRunner

from actors.cli.main import corral
from actors.farm.answer_schemas import ANSWERS
from actors.farm.client import FarmRefused, path_of
from actors.farm.config import FarmConfig, PricesConfig
from actors.farm.daemon import Farm, open_farm
from actors.farm.findings_api import MAX_NOTE
from actors.farm.records import AttemptRecord
from tests.kit.farm import PROGRAM, ServedFarm, farm_config, open_served, submit, wait_over, wait_run, write_scenario
from tests.kit.farm_records import CRASH, jpeg, leave, wait_scanned

FINDINGS = path_of("findings")


def config_of(folder: Path, does: str = "code=1") -> FarmConfig:
    write_scenario(folder, "game", does)
    prices = PricesConfig("CNY", phone_minute=6.0, gpu_hour=36.0, input_million=1e6, output_million=1e6)
    return attrs.evolve(farm_config(folder), prices=prices)


async def played(served: ServedFarm, **more: Any) -> str:
    run = (await submit(served.farm, "game", **more)).run
    await wait_over(served.farm, run)
    await wait_scanned(served, run)
    return run


async def the_crash(served: ServedFarm, who: str = "games.viewer", **query: Any) -> dict[str, Any]:
    answer = await served.call(who, "GET", FINDINGS, kind="crash", **query)
    (found,) = answer.json["findings"]
    return dict(found)


async def refused(served: ServedFarm, who: str, method: str, path: str, body: Any = None, **query: Any) -> int:
    with pytest.raises(FarmRefused) as error:
        await served.call(who, method, path, body, **query)
    assert "\n" not in str(error.value)
    return error.value.status


async def wait_for_scan(farm: Farm, run: str) -> AttemptRecord:
    with trio.fail_after(60):
        while True:
            (attempt,) = await farm.store.do(lambda store: store.attempts(run))
            if attempt.scanned_at is not None:
                return attempt
            await trio.sleep(0.02)


async def test_what_went_wrong_is_found_and_shown(tmp_path: Path) -> None:
    leave(tmp_path)
    async with open_served(config_of(tmp_path)) as served:
        first = await played(served)
        second = await played(served)
        found = await the_crash(served)
        shown = (await served.call("games.viewer", "GET", path_of("findings", found["id"]))).json
        picture = await served.call("games.viewer", "GET", path_of("findings", found["id"], "picture"))

        assert (found["title"], found["state"], found["count"]) == (CRASH["cause"], "new", 2)
        assert found["runs"] == sorted([first, second])
        assert found["first_seen"] <= found["last_seen"]
        assert not found["flaky"]
        assert found["example"]["run"] in (first, second)
        assert shown["repro"]["scenario"] == "test"
        for told in (found, shown):
            jsonschema.validate(told, ANSWERS["Finding"])
        assert len(shown["examples"]) == 2
        assert (picture.headers["content-type"], picture.body) == ("image/jpeg", jpeg(120))
        kinds = {one["kind"] for one in (await served.call("games.viewer", "GET", FINDINGS)).json["findings"]}
        assert {"crash", "missed"} <= kinds


async def test_what_a_finding_and_a_run_cost(tmp_path: Path) -> None:
    leave(tmp_path)
    async with open_served(config_of(tmp_path)) as served:
        run = await played(served)
        cost = (await the_crash(served))["costs"]
        used = cost["tokens"]

        # each plan: 100 tokens in, 0.3 s of an engine that others overlap
        plans = used["input"] // 100
        assert plans > 2
        assert used["output"] == plans * len("T500,500")
        assert (cost["currency"], cost["complete"]) == ("CNY", True)
        assert 0.3 <= cost["gpu_seconds"] <= plans * 0.3 + 0.001
        assert cost["phone_minutes"] == pytest.approx(10 / 60, abs=0.001)
        tokens = used["input"] - used["cached"] + used["output"]
        assert cost["money"] == pytest.approx(tokens + cost["gpu_seconds"] * 0.01 + 1.0, abs=0.01)
        listed = (await served.call("games.viewer", "GET", path_of("runs"))).json["runs"]
        shown = (await served.call("games.viewer", "GET", path_of("runs", run))).json
        costs = shown["costs"]
        assert costs == listed[0]["costs"] == shown["attempts"][0]["costs"]
        assert costs["complete"]
        assert costs.keys() == cost.keys()
        assert costs["tokens"] == used
        assert costs["gpu_seconds"] == cost["gpu_seconds"]  # it has one episode
        assert costs["phone_minutes"] == shown["attempts"][0]["phone_minutes"]  # as long as the phone was reserved
        assert costs["money"] == pytest.approx(cost["money"] - 1.0 + costs["phone_minutes"] * 6.0, abs=0.02)


async def test_operators_say_what_a_finding_is(tmp_path: Path) -> None:
    leave(tmp_path)
    async with open_served(config_of(tmp_path)) as served:
        await played(served)
        one = path_of("findings", (await the_crash(served))["id"])
        marked = (await served.call("games.operator", "POST", one, {"state": "fixed", "note": "build 7"})).json
        kept = (await served.call("games.operator", "POST", one, {"state": "fixed"})).json
        again = await played(served)
        regressed = await the_crash(served)
        actions = (await served.call("games.admin", "GET", path_of("audit"))).json["actions"]

        assert (marked["state"], marked["note"], kept["note"]) == ("fixed", "build 7", "build 7")
        assert (regressed["state"], regressed["regressed"], again in regressed["runs"]) == ("new", True, True)
        assert [(one["action"], one["detail"]) for one in actions][-1:] != []
        assert any(one["action"] == "mark finding" and one["target"].endswith(marked["id"]) for one in actions)
        for body in (
            *({}, {"state": "gone"}, {"state": ["new"]}, {"state": "new", "note": 7}, {"state": "new", "more": 1}),
            {"state": "new", "note": "x" * (MAX_NOTE + 1)},
        ):
            assert await refused(served, "games.operator", "POST", one, body) == 400, body
        assert await refused(served, "games.viewer", "POST", one, {"state": "known"}) == 403
        assert await refused(served, "other.operator", "POST", one, {"state": "known"}) == 404


async def test_another_tenant_knows_nothing_of_it(tmp_path: Path) -> None:
    leave(tmp_path)
    async with open_served(config_of(tmp_path)) as served:
        await played(served)
        name = (await the_crash(served))["id"]

        assert (await served.call("other.viewer", "GET", FINDINGS)).json["findings"] == []
        for path in (
            path_of("findings", name),
            path_of("findings", name, "repro"),
            path_of("findings", name, "picture"),
        ):
            assert await refused(served, "other.operator", "GET", path) == 404
            assert await refused(served, "other.operator", "GET", path, tenant="games") == 404
            await served.call("other.admin", "GET", path, tenant="games")
        assert (await the_crash(served, "other.admin", tenant="games"))["id"] == name
        assert await refused(served, "games.admin", "GET", FINDINGS, tenant="../../x") == 409
        assert await refused(served, "games.viewer", "GET", FINDINGS, state="odd") == 400
        assert await refused(served, "games.viewer", "GET", FINDINGS, kind="odd") == 400
        assert await refused(served, "games.viewer", "GET", FINDINGS, limit="-1") == 400
        listed = await served.call("games.viewer", "GET", FINDINGS, scenario="another")
        assert listed.json["findings"] == []


async def test_a_finding_is_replayed_from_its_zip(tmp_path: Path) -> None:
    leave(tmp_path)
    async with open_served(config_of(tmp_path)) as served:
        run = await played(served)
        (served.farm.files(run).folder / "pictures").symlink_to("/etc")
        found = await the_crash(served)
        answer = await served.call("games.viewer", "GET", path_of("findings", found["id"], "repro"))
        with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
            archive.extractall(tmp_path / "out")
        replayed = CliRunner().invoke(corral, ["replay", str(tmp_path / "out" / found["id"]), "--json"])

        assert answer.headers["content-type"] == "application/zip"
        assert replayed.exit_code == 0, replayed.output
        assert json.loads(replayed.stdout.splitlines()[0])["differences"] == []
        assert not list((served.farm.folder / "scratch").iterdir())
        shutil.rmtree(served.farm.files(run).folder)
        for name in ("repro", "picture"):
            assert await refused(served, "games.viewer", "GET", path_of("findings", found["id"], name)) == 404


async def test_what_a_repeat_does_not_show_is_flaky(tmp_path: Path) -> None:
    leave(tmp_path, 1)
    leave(tmp_path, 2, crashes=False)
    async with open_served(config_of(tmp_path, "code=1 once=1")) as served:
        await played(served, repeats=1)

        assert (await the_crash(served))["flaky"]


async def test_what_a_stopped_daemon_did_not_read_is_read_by_the_next(tmp_path: Path) -> None:
    leave(tmp_path)
    config = config_of(tmp_path)
    async with open_served(config) as served:
        run = await played(served)
        before = await the_crash(served)
    # as a kill leaves it that came after the file was saved, and before the state was
    with closing(sqlite3.connect(tmp_path / "farm" / "state.sqlite3")) as state, state:
        state.execute("UPDATE attempts SET scanned_at = NULL, usage = NULL")
    async with open_farm(config, program=PROGRAM) as farm:
        await wait_run(farm, run, lambda one: one.is_over)
        with_scan = await wait_for_scan(farm, run)
        found = await farm.findings.load("games")

        assert with_scan.usage is not None
        assert found.findings[before["id"]].counts == {run: 1}


async def test_a_folder_that_cannot_be_read_is_read_once(tmp_path: Path) -> None:
    template = leave(tmp_path)
    (template / "episodes" / "run-P-0" / "steps.jsonl").write_text('{"version": 1}\nnothing\nnothing\n')
    async with open_served(config_of(tmp_path)) as served:
        run = await played(served)
        (attempt,) = await served.farm.store.do(lambda store: store.attempts(run))

        assert attempt.scanned_at is not None
        assert attempt.usage is None
        assert (await served.call("games.viewer", "GET", FINDINGS)).json["findings"] == []


async def test_a_damaged_file_of_findings_is_told_and_kept(tmp_path: Path) -> None:
    leave(tmp_path)
    file = tmp_path / "farm" / "findings" / "games.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    async with open_served(config_of(tmp_path)) as served:
        run = (await submit(served.farm, "game")).run
        await wait_over(served.farm, run)

        assert await refused(served, "games.viewer", "GET", FINDINGS) == 409
        assert (await served.call("other.viewer", "GET", FINDINGS)).json["findings"] == []
        assert file.read_text() == "{"
