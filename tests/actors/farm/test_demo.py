"""The farm to look at: what it leaves, and that its link works."""

import signal
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from actors.farm.client import FarmClient, path_of
from actors.farm.demo import PHONES, make_demo
from actors.farm.loading import load_farm_config
from runtime.secret import Secret
from tests.actors.farm.test_serve import served, until


def test_what_is_there_stays(tmp_path: Path) -> None:
    scenarios = tmp_path / 'a "folder"'
    scenarios.mkdir()
    file, token = make_demo(tmp_path / "demo", scenarios, 0)
    config = load_farm_config(file)
    written = file.read_text() + "\n[retention]\ndisk_gb = 1\n"
    file.write_text(written)
    again = make_demo(tmp_path / "demo", tmp_path, 9000)
    (tmp_path / "demo" / "token").write_text("damaged")
    _, anew = make_demo(tmp_path / "demo", tmp_path, 9000)

    assert len(config.farm_phones()) == PHONES
    assert config.farm.scenarios == str(scenarios)
    assert config.listen.host == "127.0.0.1"
    assert (again, file.read_text()) == ((file, token), written)
    assert anew != token
    assert {(tmp_path / "demo" / name).stat().st_mode & 0o77 for name in ("token", "tokens.json", ".")} == {0}


@pytest.mark.adb
@pytest.mark.xdist_group("fleet")
def test_one_link_and_something_plays(tmp_path: Path) -> None:
    make_demo(tmp_path / "demo", Path(__file__).parents[3] / "scenarios", 1)  # --port holds for what is there as well
    with served("actors.cli.main", "farm", "demo", str(tmp_path / "demo"), "--port", "0") as (process, link):
        parts = urlsplit(link)
        url, token = f"{parts.scheme}://{parts.netloc}", parts.fragment.removeprefix("token=")
        with urllib.request.urlopen(f"{url}/wall/") as page:
            assert b"app.js" in page.read()
        client = FarmClient(url, Secret(token))

        def states() -> list[str]:
            return sorted(run["state"] for run in client.call("GET", path_of("runs")).json["runs"])

        until(lambda: states() == ["queued", "running"])
        assert parts.hostname == "127.0.0.1"
        assert client.call("GET", path_of("farm")).json["phones"] == PHONES
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        assert process.wait(timeout=60) == 0
        assert time.monotonic() - started < 50
