"""The farm's API: what it does, and who may not."""

import http.client
import json
from pathlib import Path
from typing import Any

import attrs
import jsonschema  # type: ignore[import-untyped]
import pytest
import trio
from starlette.routing import Route

from actors.farm.access import Endpoint, Need
from actors.farm.answer_schemas import ANSWERS
from actors.farm.api import MAX_LOG_BYTES, RESULTS, Api
from actors.farm.client import FarmRefused, path_of
from actors.farm.config import AdbPool, PricesConfig
from actors.farm.openapi import document_for
from actors.farm.routes import BODIES, endpoints_of
from actors.token_store import Role
from tests.kit.farm import ServedFarm, farm_config, open_served, wait_over, wait_playing, write_scenario

RUNS = path_of("runs")


async def submitted(served: ServedFarm, who: str = "games.operator", **body: Any) -> str:
    """A run of `good`, or as the body says."""
    answer = await served.call(who, "POST", RUNS, {"scenario": "good", **body})
    return str(answer.json["run"])


async def status_of(served: ServedFarm, who: str, method: str, path: str, body: Any = None) -> int:
    try:
        await served.call(who, method, path, body)
    except FarmRefused as error:
        return error.status
    return 200


async def test_a_run_from_submission_to_its_results(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=0.05", phones=2)
    config = attrs.evolve(farm_config(tmp_path), prices=PricesConfig("CNY", phone_minute=6.0))
    async with open_served(config) as served:
        run = await submitted(served, labels=["lab"], priority=7)
        await wait_over(served.farm, run)
        shown = (await served.call("games.viewer", "GET", path_of("runs", run))).json
        listed = (await served.call("games.viewer", "GET", RUNS, state="succeeded")).json["runs"]
        logs = await served.call("games.viewer", "GET", path_of("runs", run, "logs"))
        summary = await served.call("games.viewer", "GET", path_of("runs", run, "results", "summary.json"))

        assert (shown["state"], shown["user"], shown["priority"]) == ("succeeded", "operator-games", 7)
        (attempt,) = shown["attempts"]
        assert attempt["outcome"] == "succeeded"
        assert attempt["result"] == {"episodes": 1, "tenant": "games"}
        assert attempt["currency"] == "CNY"
        assert attempt["cost"] == pytest.approx(attempt["phone_minutes"] * 6.0, abs=0.01)
        assert attempt["cost"] > 0
        assert [one["run"] for one in listed] == [run]
        assert b"on 2 phones" in logs.body
        assert int(logs.headers["x-next-offset"]) == len(logs.body)
        assert summary.json["totals"]["episodes"] == 1
        jsonschema.validate(shown, ANSWERS["Run"])


async def test_operators_pause_resume_pin_and_cancel(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60")
    async with open_served(farm_config(tmp_path)) as served:
        run = await submitted(served)
        await wait_playing(served.farm, run)
        await served.call("games.operator", "POST", path_of("runs", run, "pin"))
        await served.call("games.operator", "POST", path_of("runs", run, "cancel"))
        record = await wait_over(served.farm, run)
        later = await submitted(served, not_before="2100-01-01T00:00:00Z")
        paused = (await served.call("games.operator", "POST", path_of("runs", later, "pause"))).json
        resumed = (await served.call("games.operator", "POST", path_of("runs", later, "resume"))).json
        gone = (await served.call("games.operator", "POST", path_of("runs", later, "cancel"))).json

        assert record.pinned
        assert paused["reason"] == "paused by operator-games"
        assert (resumed["held"], gone["state"]) == (None, "cancelled")
        assert await status_of(served, "games.operator", "POST", path_of("runs", later, "cancel")) == 409
        actions = (await served.call("games.admin", "GET", path_of("audit"))).json["actions"]
        assert [one["action"] for one in reversed(actions)] == [
            *("submit", "pin", "cancel", "submit", "pause", "resume", "cancel", "cancel")
        ]
        assert {one["user"] for one in actions} == {"operator-games"}
        assert "corral_" not in json.dumps(actions)


async def test_admins_pause_phones_and_drain_the_farm(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path, phones=2)) as served:
        await served.call("games.admin", "POST", path_of("phones", "10.0.0.1:5555", "pause"))
        phones = (await served.call("games.admin", "GET", path_of("phones"))).json["phones"]
        await served.call("games.admin", "POST", path_of("drain"))
        run = await submitted(served)
        with trio.fail_after(30):
            while "drained" not in (await served.call("games.viewer", "GET", path_of("runs", run))).json["reason"]:
                await trio.sleep(0.02)
        ready = await status_of(served, "nobody", "GET", "/readyz")
        await served.call("games.admin", "DELETE", path_of("drain"))
        await wait_over(served.farm, run)

        assert {one["phone"]: one["state"] for one in phones} == {"10.0.0.0:5555": "free", "10.0.0.1:5555": "paused"}
        assert ready == 503
        assert await status_of(served, "games.admin", "POST", path_of("phones", "nothing", "pause")) == 404
        assert await status_of(served, "games.admin", "POST", path_of("phones", "*", "pause")) == 404
        resumed = await served.call("games.admin", "POST", path_of("phones", "10.0.0.1:5555", "resume"))
        assert resumed.json["was_paused"]


async def test_probes_metrics_and_lists(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        await wait_over(served.farm, await submitted(served))

        assert await status_of(served, "nobody", "GET", "/healthz") == 200
        assert await status_of(served, "nobody", "GET", "/readyz") == 200
        metrics = (await served.call("games.viewer", "GET", "/metrics")).body
        assert b'actors_farm_ended_tasks_total{outcome="succeeded"}' in metrics
        assert b"games" not in metrics
        assert (await served.call("games.viewer", "GET", path_of("scenarios"))).json == {"scenarios": ["good"]}
        farm = (await served.call("games.viewer", "GET", path_of("farm"))).json
        assert (farm["phones"], farm["drained"]) == (4, False)


async def test_every_mistake_of_a_submission_is_told(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    (tmp_path / "scenarios" / "bad.toml").write_text('name = "two words"\nseed = -1\n')
    async with open_served(farm_config(tmp_path, body_bytes=2000)) as served:
        with pytest.raises(FarmRefused) as several:
            await submitted(served, priority=99, repeats=99)
        with pytest.raises(FarmRefused) as wrong:
            await submitted(served, scenario="bad")
        statuses = [
            await status_of(served, "games.operator", "POST", RUNS, body)
            for body in ({"scenario": "../good"}, {"scenario": "none"}, {"text": "x" * 3000}, {"tenant": "other"})
        ]

        assert (several.value.status, len(several.value.problems)) == (422, 2)
        assert len(wrong.value.problems) >= 3
        assert statuses == [422, 409, 413, 422]


async def test_bodies_that_are_no_objects(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        for body in (b"[]", b"{", b'"x"', b"\xff\xfe", b"[" * 1500, b"null"):
            status, answered = await trio.to_thread.run_sync(_post, served, body)

            assert status == 400, body
            assert json.loads(answered)["error"]


def _post(served: ServedFarm, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
    headers = {"authorization": f"Bearer {served.tokens['games.operator'].reveal()}"}
    try:
        connection.request("POST", RUNS, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def filled(path: str, run: str) -> str:
    """A place to ask at; a parameter that nobody has thought of here fails."""
    known = {"run": run, "phone": "10.0.0.0:5555", "name": "summary.json", "engine": "none"}
    return path.format(**known, finding="0" * 12, sha="0" * 64, pin="1")


def lower_roles(need: Need) -> list[Role]:
    """Roles that are not enough."""
    return {
        Need.NOBODY: [],
        Need.VIEWER: [],
        Need.OPERATOR: [Role.VIEWER, Role.REVIEWER],
        Need.ADMIN: [Role.VIEWER, Role.REVIEWER, Role.OPERATOR],
    }[need]


OPEN = {"/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/session"}
PAGES = {"/", "/wall", "/wall/", "/wall/{file}"}  # files without data: tests/actors/farm/test_pages.py


async def test_every_route_refuses_whoever_may_not(tmp_path: Path) -> None:
    """Without a token, with a wrong one, with a lower role, with another tenant's: all routes, none left out."""
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        run = await submitted(served)
        await wait_over(served.farm, run)
        frame = served.farm.files(run).folder / "frames" / f"{'0' * 64}.jpg"
        frame.parent.mkdir()
        frame.write_bytes(b"\xff\xd8\xff")
        before = await served.farm.store.do(lambda store: (store.runs(), store.pauses()))
        endpoints: dict[str, Endpoint] = {
            f"{one.method} {one.path}": one for one in endpoints_of(Api(served.farm), served.callers)
        }
        routes = [route for route in served.app.routes if isinstance(route, Route) and route.path not in PAGES]
        others = [route for route in served.app.routes if not isinstance(route, Route)]
        assert [getattr(route, "name", "") for route in others] == ["events"], "it has tests of its own"
        assert len(routes) == len(served.app.routes) - len(PAGES) - len(others) == len(endpoints)
        assert {one.path for one in endpoints.values() if one.need is Need.NOBODY} == OPEN
        for route in routes:
            endpoint = endpoints[str(route.name)]
            path = filled(endpoint.path, run)
            if endpoint.need is Need.NOBODY:
                continue
            where = f"{endpoint.method} {path}"
            assert await status_of(served, "nobody", endpoint.method, path) == 401, where
            assert await _status_without_token(served, endpoint.method, path) == 401, where
            for role in lower_roles(endpoint.need):
                assert await status_of(served, f"games.{role}", endpoint.method, path) == 403, f"{where} as {role}"
            if "{run}" in endpoint.path:
                assert await status_of(served, "other.operator", endpoint.method, path) == 404, f"{where} of another"
                assert await status_of(served, "other.admin", endpoint.method, path) in (200, 409), where
        assert await served.farm.store.do(lambda store: [one.run for one in store.runs()]) == [run]
        assert before[0][0].state is (await served.farm.store.do(lambda store: store.run(run))).state


async def _status_without_token(served: ServedFarm, method: str, path: str, **headers: str) -> int:
    def ask() -> int:
        connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    return await trio.to_thread.run_sync(ask)


async def test_another_tenant_sees_nothing_of_a_run(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=60", phones=2)
    config = farm_config(tmp_path)
    mine = AdbPool("theirs", ("10.9.9.9:5555",), tenants=("games",))
    async with open_served(attrs.evolve(config, phones=(*config.phones, mine))) as served:
        run = await submitted(served)
        await wait_playing(served.farm, run)
        listed = (await served.call("other.operator", "GET", RUNS)).json["runs"]
        asked = (await served.call("other.operator", "GET", RUNS, tenant="games")).json["runs"]
        phones = (await served.call("other.operator", "GET", path_of("phones"))).json["phones"]
        all_of_it = (await served.call("other.admin", "GET", RUNS, tenant="games")).json["runs"]

        assert listed == asked == []
        assert [one["run"] for one in all_of_it] == [run]
        assert all(one["attempt"] is None for one in phones)
        assert any(one["state"] == "busy" for one in phones)
        assert "10.9.9.9:5555" not in {one["phone"] for one in phones}


HOSTILE_NAMES = (
    *("..%2f..%2fstate.sqlite3", "scenario.toml", "%2e%2e", "summary.json%00", "..", "/etc/passwd", "run.json"),
)


async def test_nothing_but_results_is_served_of_a_run_folder(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        run = await submitted(served)
        await wait_over(served.farm, run)

        for name in HOSTILE_NAMES:
            path = f"{path_of('runs', run, 'results')}/{name}"
            assert await status_of(served, "games.admin", "GET", path) == 404, name
        for hostile in ("..", "%2e%2e%2f", f"..%2fruns%2f{run}", "%00", "a" * 300):
            assert await status_of(served, "games.admin", "GET", f"/api/v1/runs/{hostile}/logs") == 404, hostile


async def test_reports_run_no_scripts_and_everything_says_what_it_is(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        run = await submitted(served)
        await wait_over(served.farm, run)
        (served.farm.files(run).folder / "report.html").write_text("<script>alert(1)</script>")
        report = await served.call("games.viewer", "GET", path_of("runs", run, "results", "report.html"))
        logs = await served.call("games.viewer", "GET", path_of("runs", run, "logs"))

        policy = report.headers["content-security-policy"]
        assert "script-src" not in policy
        assert "default-src 'none'" in policy
        assert policy.endswith("sandbox")
        for answer in (report, logs):
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert logs.headers["content-type"] == "text/plain; charset=utf-8"
        assert set(RESULTS) == {"summary.json", "junit.xml", "report.html"}


async def test_logs_are_read_on_from_an_offset(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        run = await submitted(served)
        await wait_over(served.farm, run)
        log = served.farm.files(run).log
        log.write_bytes(b"".join(b"line %06d\n" % number for number in range(10_000)))
        path = path_of("runs", run, "logs")
        end = await served.call("games.viewer", "GET", path)
        parts, offset = b"", 0
        while len(part := (await served.call("games.viewer", "GET", path, offset=offset, limit=50_000)).body):
            parts += part
            offset += len(part)

        assert end.body.startswith(b"line ")
        assert end.body.endswith(b"line 009999\n")
        assert parts == log.read_bytes()
        assert await status_of(served, "games.viewer", "GET", f"{path}?offset=-1") == 400
        assert await status_of(served, "games.viewer", "GET", f"{path}?attempt=9") == 404
        assert len((await served.call("games.viewer", "GET", path, limit=10**9)).body) <= MAX_LOG_BYTES


async def test_failed_logins_are_limited(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path), failed_logins_per_minute=3) as served:
        statuses = [await status_of(served, "nobody", "GET", RUNS) for _ in range(6)]

        assert statuses[:3] == [401, 401, 401]
        assert statuses[-1] == 429
        assert await status_of(served, "games.viewer", "GET", RUNS) == 429
        assert await _status_without_token(served, "GET", "/healthz") == 200


async def test_headers_that_are_no_tokens(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        for header in ("", "Bearer", "Basic abc", "Bearer  ", "bearer \u00e9", "Bearer " + "x" * 5000):
            assert await _status_without_token(served, "GET", RUNS, authorization=header) == 401, header


async def test_the_document_names_every_endpoint_and_its_role(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        endpoints = endpoints_of(Api(served.farm), served.callers)
        document = (await served.call("nobody", "GET", "/api/v1/openapi.json")).json

        assert document == document_for(endpoints, document["info"]["version"], BODIES)
        for one in endpoints:
            operation = document["paths"][one.path][one.method.lower()]
            assert operation["security"] == ([] if one.need is Need.NOBODY else [{"token": []}, {"session": []}])
            names = {given["name"] for given in operation["parameters"] if given["in"] == "path"}
            assert all(f"{{{name}}}" in one.path for name in names)
            if one.body is not None:
                assert one.body in document["components"]["schemas"]
        for schema in document["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)


async def test_what_is_not_there_is_told_as_json(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        assert await status_of(served, "games.admin", "GET", "/nothing") == 404
        assert await status_of(served, "games.admin", "PUT", RUNS) == 405
        assert await status_of(served, "games.admin", "GET", path_of("runs", "nobody")) == 404
