"""What people may try who have a token, or none: names that lead elsewhere, links in run folders, hostile scenarios."""

import http.client
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.farm.access import Need
from actors.farm.api import RESULTS, Api
from actors.farm.client import FarmRefused, path_of
from actors.farm.routes import endpoints_of
from actors.farm.run_files import NoFile, read_inside
from tests.kit.farm import SCENARIO, ServedFarm, farm_config, open_served, wait_over, write_scenario

SECRET = "what-nobody-may-read"
HOSTILE = [
    *("..", "%2e%2e", "%2e%2e%2f%2e%2e%2fsecret", "..%2f..%2fsecret", "%252e%252e%252fsecret", "%2fetc%2fpasswd"),
    *("//etc/passwd", "%00", "secret%00.jpg", "..%5c..%5csecret", "%c0%ae%c0%ae%2fsecret", "%ff%fe", "a" * 2000),
    *("%0d%0aset-cookie:%20a=b", "%3Cscript%3E", "%F0%9F%90%B4", "*", "%2a", "."),
]
PARAMETER = re.compile(r"\{\w+\}")


def ask(served: ServedFarm, who: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, dict[str, str]]:
    """Exactly this path, nothing of it made safe on the way. Blocks."""
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=60)
    headers = {"authorization": f"Bearer {served.tokens[who].reveal()}"}
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read(), {name.lower(): value for name, value in response.getheaders()}
    finally:
        connection.close()


async def a_run(served: ServedFarm) -> str:
    run = (await served.call("games.operator", "POST", path_of("runs"), {"scenario": "good"})).json["run"]
    await wait_over(served.farm, run)
    return str(run)


async def test_no_name_in_a_path_leads_anywhere(tmp_path: Path) -> None:
    """All endpoints with names in their path, those that come later too."""
    write_scenario(tmp_path, "good")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "farm").mkdir()
    (tmp_path / "farm" / "secret").write_text(SECRET)
    async with open_served(farm_config(tmp_path)) as served:
        run = await a_run(served)
        tried = 0
        for endpoint in endpoints_of(Api(served.farm), served.callers):
            names = PARAMETER.findall(endpoint.path)
            for hostile in HOSTILE if names else ():
                last = endpoint.path.replace("{run}", run) if len(names) > 1 else endpoint.path
                path = PARAMETER.sub(lambda _, name=hostile: name, last)  # type: ignore[misc]
                work = partial(ask, served, "games.admin", endpoint.method, path)
                status, body, headers = await trio.to_thread.run_sync(work)
                where = f"{endpoint.method} {path[:200]}"
                resumes_any = endpoint.path.endswith("/phones/{phone}/resume")  # also phones of an earlier file
                assert status in ({200} if resumes_any else set()) | {400, 404, 405, 409}, f"{where}: {status}"
                assert SECRET.encode() not in body, where
                assert "set-cookie" not in headers, where
                assert "location" not in headers, where
                assert headers["content-type"] == "application/json", where
                tried += 1
        assert tried > 10 * len(HOSTILE)


async def test_what_is_put_into_a_run_folder_leads_nowhere(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    async with open_served(farm_config(tmp_path)) as served:
        run = await a_run(served)
        folder = served.farm.files(run).folder
        put: list[Callable[[Path], object]] = [
            lambda place: place.symlink_to(secret),
            lambda place: place.symlink_to("/dev/zero"),
            lambda place: place.mkdir(),
            os.mkfifo,
        ]
        for name in RESULTS:
            for number, one in enumerate(put):
                (folder / name).unlink(missing_ok=True)
                one(folder / name)
                path = path_of("runs", run, "results", name)
                with trio.fail_after(20):
                    status, body, _ = await trio.to_thread.run_sync(ask, served, "games.admin", "GET", path)
                assert status == 404, f"{name} {number}"
                assert SECRET.encode() not in body
                if (folder / name).is_dir():
                    (folder / name).rmdir()


def test_files_are_read_inside_a_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "frames").mkdir(parents=True)
    (folder / "frames" / "one").write_bytes(b"12345")
    (tmp_path / "secret").write_text(SECRET)
    (folder / "linked").symlink_to(tmp_path)
    (tmp_path / "folder").symlink_to(folder)

    assert read_inside(folder, "frames", "one", most=5) == b"12345"
    for parts in (
        ("..", "secret"), ("linked", "secret"), ("frames", "../../secret"), ("frames",), ("frames", "one", "more"),
        ("frames", "none"), ("",), (".",), ("frames\0", "one"), (str(tmp_path / "secret"),),
    ):  # fmt: skip
        with pytest.raises(NoFile):
            read_inside(folder, *parts, most=1000)
    with pytest.raises(NoFile):
        read_inside(folder, "frames", "one", most=4)
    with pytest.raises(NoFile):
        read_inside(tmp_path / "folder", "frames", "one", most=5)


BASE = SCENARIO.format(name="mine", does="", phones=1)
TEXTS = [
    BASE.replace('goal = "Survive."', 'goal = "Survive."\nrules = "/etc/passwd"'),
    BASE.replace('goal = "Survive."', 'goal = "Survive."\napk = "../../secret.apk"'),
    BASE.replace('package = "dev.corral.battler"', 'package = "a; reboot"'),
    BASE.replace("enabled = false", 'enabled = true\nprofile = "../../secret"'),
    BASE.replace('goal = "Survive."', 'goal = "Survive."\nactivity = "a; rm -rf /"'),
    BASE.replace('kind = "simulated"', 'kind = "adb"\naddresses = ["10.0.0.1:5555"]'),
    BASE.replace('kind = "simulated"', 'kind = "replay"\nfolder = "/"'),
    BASE + '[[engines]]\nid = "e"\nurl = "http://169.254.169.254/"\n',
    BASE + '[[engines]]\nid = "e"\nlaunch = { command = ["sh", "-c", "id"] }\n',
    BASE + '[secrets]\nkey = "HOME"\n',
    BASE + '[setup]\nsteps = [{ shell = "id" }]\n',
    BASE + '[record]\npixels = true\n',
    BASE.replace('name = "mine"', 'name = "../../mine"'),
]  # fmt: skip


async def test_scenarios_as_text_name_nothing_and_leave_nothing(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        for text in TEXTS:
            with pytest.raises(FarmRefused) as error:
                await served.call("games.operator", "POST", path_of("runs"), {"text": text})
            assert error.value.status == 422, text
        for name in ("../scenarios/good", "/etc/passwd", "good.toml\0", "good/../good", "..", ".hidden", "a" * 200):
            body: dict[str, Any] = {"scenario": name}
            with pytest.raises(FarmRefused) as error:
                await served.call("games.operator", "POST", path_of("runs"), body)
            assert error.value.status in (409, 422), name

        assert await served.farm.store.do(lambda store: store.runs()) == []
        assert not (tmp_path / "farm" / "texts").exists()


async def test_nobody_learns_anything_without_a_token(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        run = await a_run(served)
        for endpoint in endpoints_of(Api(served.farm), served.callers):
            if endpoint.need is Need.NOBODY:
                continue
            there = endpoint.path.replace("{run}", run).replace("{phone}", "10.0.0.0:5555")
            for path in (PARAMETER.sub("x", there), PARAMETER.sub("nothing", endpoint.path)):
                status, body, _ = await trio.to_thread.run_sync(ask, served, "nobody", endpoint.method, path)
                assert status == 401, f"{endpoint.method} {path}: what is not there is answered as what is"
                assert json.loads(body).keys() == {"error"}
                assert run.encode() not in body
