"""The authoring page's interface: who may ask, what is refused, and digits kept until all ten are there."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import httpcore
import numpy as np
import pytest
import trio

from actors.assets import load_rules
from actors.authoring.desk import Desk
from actors.authoring.frames import frames_in
from actors.authoring.serve import serve_page
from actors.authoring.sources import StoredSource, app_source
from actors.rehearsal.apps.catalog import APPS

SCORE = (32, 96, 362, 180)


class Client:
    def __init__(self, pool: httpcore.AsyncConnectionPool, url: str) -> None:
        self.pool, self.url = pool, url

    async def ask(self, path: str, form: object = None, **headers: str) -> tuple[int, Any]:
        method, body = ("GET", None) if form is None else ("POST", json.dumps(form).encode())
        answer = await self.pool.request(method, self.url + path, headers=list(headers.items()), content=body)
        kind = dict(answer.headers).get(b"content-type", b"")
        return answer.status, json.loads(answer.content) if b"json" in kind else answer.content


def merge_with(score: int) -> np.ndarray:
    app = APPS["merge"](seed=1, width=720, height=1280, now=0.0)
    app._state.best = score  # type: ignore[attr-defined]
    return np.asarray(cv2.cvtColor(app.draw(0.0), cv2.COLOR_RGB2BGR))


@pytest.fixture
async def client(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Client]:
    """The page on three pictures, with rules.toml as its file."""
    for number, score in enumerate((1234, 5678, 90)):
        cv2.imwrite(str(tmp_path / f"{number}.png"), merge_with(score))
    stop = trio.Event()
    desk = Desk(StoredSource("pictures", frames_in(tmp_path)), tmp_path / "made" / "rules.toml")
    (tmp_path / "made").mkdir()
    url = await nursery.start(partial(serve_page, desk, stop=stop))
    async with httpcore.AsyncConnectionPool() as pool:
        yield Client(pool, url)
    stop.set()


def form(**changes: Any) -> dict[str, Any]:
    return {"kind": "digits", "name": "sum", "frame": 0, "marked_on": 0, "box": SCORE, "anchor": "top_left"} | changes


async def test_only_who_knows_the_token_and_this_host_may_ask(client: Client) -> None:
    status, page = await client.ask("")
    assert status == 200
    assert b'<script type="module" src=' in page
    assert b"style=" not in page
    assert b"onclick" not in page
    assert (await client.ask("", Host="evil.example"))[0] == 404
    base = client.url.rsplit("/", 2)[0]
    for path in ("/", "/wrong/", "/wrong/api/source", "/static/author.js"):
        assert (await Client(client.pool, base).ask(path))[0] == 404
    answer = await client.pool.request("GET", client.url)
    headers = dict(answer.headers)
    assert b"default-src 'none'" in headers[b"content-security-policy"]
    assert b"unsafe" not in headers[b"content-security-policy"]


async def test_digits_are_kept_until_all_ten_are_there_and_then_read(client: Client, tmp_path: Path) -> None:
    assert (await client.ask("api/test", form(text="")))[0] == 409
    status, said = await client.ask("api/save", form(text="1234"))
    assert (status, said["missing_digits"], said["toml"]) == (200, [0, 5, 6, 7, 8, 9], "")
    await client.ask("api/save", form(text="5678", marked_on=1))
    status, tested = await client.ask("api/test", form(text="90", marked_on=2, frame=1))
    assert (status, tested["value"], tested["hit"]) == (200, 5678, True)

    status, said = await client.ask("api/save", form(text="90", marked_on=2))

    assert (status, said["missing_digits"], said["probes"]) == (200, [], ["sum"])
    rules, pictures = load_rules(tmp_path / "made" / "rules.toml")
    assert sorted(pictures) == [f"sum/{digit}" for digit in range(10)]
    assert set(rules.probes) == {"sum"}


async def test_a_tap_waits_for_a_probe_of_the_file(client: Client, tmp_path: Path) -> None:
    color = form(kind="color", name="paper", box=[0, 0, 700, 80], low=[0, 0, 0], high=[179, 255, 255])
    assert (await client.ask("api/save", color))[0] == 200
    assert (await client.ask("api/save", color))[1]["error"] == "there is a probe 'paper' already"
    tap = form(kind="tap", name="press", box=[10, 10, 60, 60])
    assert (await client.ask("api/save", tap))[1]["field"] == "when"
    assert (await client.ask("api/save", tap | {"when": "nothing"}))[0] == 409
    assert (await client.ask("api/save", tap | {"when": "paper"}))[0] == 200

    rules, _ = load_rules(tmp_path / "made" / "rules.toml")

    assert rules.rules[0].when[0].probe == "paper"
    assert rules.rules[0].do.tap is not None


async def test_colours_are_picked_and_shown_as_a_mask(client: Client) -> None:
    red = form(kind="color", box=[400, 10, 430, 80])
    status, picked = await client.ask("api/pick", red)
    assert status == 200
    answer = await client.pool.request("POST", client.url + "api/mask", content=json.dumps(red | picked).encode())

    mask = cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_UNCHANGED)

    assert mask is not None
    assert mask.shape == (70, 30, 4)
    assert (mask[:, :, 3] > 0).mean() > 0.7
    assert json.loads(dict(answer.headers)[b"x-box"]) == [400, 10, 430, 80]


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"box": [5, 5, 6, 6]}, 400, "at least 4x4"),
        ({"box": [0, 0, 9]}, 400, "box"),
        ({"kind": "magic"}, 400, "must be one of"),
        ({"frame": 99}, 404, "no frame 99"),
        ({"marked_on": -1}, 400, "must be >= 0"),
        ({"text": "12345"}, 400, "4 separate glyphs"),
        ({"kind": "template", "box": [0, 0, 300, 40]}, 400, "one colour only"),
        ({"kind": "ocr", "text": "("}, 400, "no regular expression"),
        ({"kind": "bar", "low": [200, 0, 0]}, 400, "hue goes from 0 to 179"),
        ({"surprise": 1}, 400, "unknown key"),
    ],
)
async def test_what_cannot_be_done_is_said(client: Client, changes: dict[str, Any], status: int, said: str) -> None:
    got, answer = await client.ask("api/test", form(**changes))

    assert got == status, answer
    assert said in answer["error"]


async def test_forms_that_are_none_are_refused(client: Client) -> None:
    for content, status in ((b"no json", 400), (b"[]", 400), (b" " * 70_000, 413)):
        answer = await client.pool.request("POST", client.url + "api/test", content=content)
        assert answer.status == status


async def test_a_file_with_mistakes_is_not_written_to(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "made" / "rules.toml"
    path.write_text("[probes.x]\nkind = 'nothing'\n")

    status, answer = await client.ask("api/save", form(kind="color", name="y", low=[0, 0, 0], high=[9, 9, 9]))

    assert status == 409
    assert "rules.toml:1" in answer["error"]
    assert path.read_text() == "[probes.x]\nkind = 'nothing'\n"


async def test_a_live_source_is_looked_at_again_and_forgets(nursery: trio.Nursery) -> None:
    source = app_source(APPS["merge"](seed=1, width=360, height=640, now=0.0))
    stop = trio.Event()
    url = await nursery.start(partial(serve_page, Desk(source, None), stop=stop))
    async with httpcore.AsyncConnectionPool() as pool:
        client = Client(pool, url)
        assert (await client.ask("api/source"))[1]["frames"] == ["frame 0"]
        for number in range(1, 22):
            assert (await client.ask("api/refresh", {}))[1] == {"frame": number}
        assert (await client.ask("api/frames/0.png"))[0] == 404
        assert (await client.ask("api/frames/21.png"))[0] == 200
        assert "--file" in (await client.ask("api/save", form(kind="color", frame=21, marked_on=21)))[1]["error"]
    stop.set()
