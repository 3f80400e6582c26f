"""The wall's files as they are served: what they are, what they may, and what is none of them."""

import http.client
from importlib.resources import files
from pathlib import Path

import attrs
import pytest
import trio

from actors.farm.config import FarmListen
from tests.kit.farm import ServedFarm, farm_config, open_served


async def get(served: ServedFarm, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    def ask() -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    return await trio.to_thread.run_sync(ask)


async def test_every_file_says_what_it_is_and_lets_nothing_in(tmp_path: Path) -> None:
    config = attrs.evolve(farm_config(tmp_path), listen=FarmListen(origins=("https://a.example", "https://b.example")))
    async with open_served(config) as served:
        moved = await get(served, "/")
        named = {one.name for one in (files("actors.farm") / "wall").iterdir() if one.is_file()}

        assert (moved[0], moved[1]["location"]) == (307, "/wall/")
        assert (await get(served, "/wall/"))[2] == (await get(served, "/wall/index.html"))[2]
        assert {"index.html", "embed.html"} <= named
        for name in named:
            status, headers, body = await get(served, f"/wall/{name}")
            policy = headers["content-security-policy"]
            assert status == 200, name
            assert body, name
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';"), name
            ancestors = "https://a.example https://b.example" if name == "embed.html" else "'none'"
            assert policy.endswith(f"frame-ancestors {ancestors}"), name
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            kind = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
            assert headers["content-type"].startswith(kind[name.rpartition(".")[2]])


async def test_a_file_is_sent_once(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        _, headers, _ = await get(served, "/wall/")
        status, again, body = await get(served, "/wall/", if_none_match=headers["etag"])

        assert (status, body, again["etag"]) == (304, b"", headers["etag"])
        assert "content-security-policy" in again
        assert (await get(served, "/wall/", if_none_match='"other"'))[0] == 200


@pytest.mark.parametrize(
    "name",
    [
        *("..%2fpages.py", "%2e%2e/pages.py", "../pages.py", "..", "index.html%00", "nothing.js", "%ff"),
        *("..%5cpages.py", "/etc/passwd", "index.html%2f..%2f..%2fapi.py", "a" * 4000, "INDEX.HTML", "__init__.py"),
    ],
)
async def test_nothing_else_is_there(tmp_path: Path, name: str) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        status, headers, _ = await get(served, f"/wall/{name}")

        assert status == 404
        assert "default-src 'none'" in headers["content-security-policy"]
