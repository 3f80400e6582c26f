"""`corral farm` as an operator uses it, against a farm that is served here."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from actors.cli.farm import farm
from tests.kit.farm import SCENARIO, ServedFarm, farm_config, open_served, wait_over, wait_playing, write_scenario
from tests.kit.farm_live import open_door


async def corral(served: ServedFarm, *words: str, who: str = "games.operator", **options: Any) -> Result:
    environment = {"CORRAL_FARM_URL": served.url, "CORRAL_TOKEN": served.tokens[who].reveal(), "COLUMNS": "200"}
    return await trio.to_thread.run_sync(partial(CliRunner().invoke, farm, words, env=environment, **options))


async def test_a_day_at_the_farm(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good", "seconds=0.1", phones=2)
    write_scenario(tmp_path, "long", "seconds=60")
    async with open_served(farm_config(tmp_path)) as served:
        assert (await corral(served, "scenarios")).output.split() == ["good", "long"]
        run = (await corral(served, "submit", "good", "--label", "lab", "--priority", "7")).output.strip()
        await wait_over(served.farm, run)
        text = SCENARIO.format(name="mine", does="", phones=1)
        mine = (await corral(served, "submit", "-", input=text)).output.strip()
        await wait_over(served.farm, mine)
        daily = await corral(served, "submit", "good", "--daily", "03:00", "--zone", "Asia/Shanghai", "--json")
        long = (await corral(served, "submit", "long")).output.strip()
        await wait_playing(served.farm, long)

        listed = await corral(served, "list", "--json")
        assert {one["run"] for one in json.loads(listed.output)} == {run, mine, long, json.loads(daily.output)["run"]}
        (row,) = (await corral(served, "list", "--state", "succeeded", "--limit", "1")).output.splitlines()[1:]
        assert "games" in row, "a pipe gets a line a run, however long"
        assert run in (await corral(served, "list", "--state", "succeeded")).output
        assert "no engines" in (await corral(served, "engines")).output
        shown = (await corral(served, "show", run)).output
        assert "succeeded" in shown
        assert "operator-games" in shown
        assert "phone minutes, 0 GPU seconds" in shown
        assert json.loads((await corral(served, "show", run, "--json")).output)["priority"] == 7
        assert "on 2 phones" in (await corral(served, "logs", run, "--follow")).output
        with served.farm.files(run).log.open("ab") as log:
            log.write(b"\x1b]0;owned\x07 \x1b[2J\n")
        assert "\x1b" not in (await corral(served, "logs", run)).output, "a phone's text must not steer a terminal"
        top = (await corral(served, "top")).output
        assert "1 play" in top
        assert long in top
        assert json.loads((await corral(served, "top", "--json")).output)["farm"]["playing"] == 1
        assert "busy" in (await corral(served, "phones")).output

        assert "is pinned" in (await corral(served, "pin", run)).output
        assert "not pinned" in (await corral(served, "pin", run, "--undo")).output
        assert "is being cancelled" in (await corral(served, "cancel", long)).output
        await wait_over(served.farm, long)
        assert "takes no runs" in (await corral(served, "drain", who="games.admin")).output
        assert "takes runs" in (await corral(served, "drain", "--undo", who="games.admin")).output
        phone = "10.0.0.1:5555"
        assert "is paused" in (await corral(served, "pause", "--phone", phone, who="games.admin")).output
        assert "is used again" in (await corral(served, "resume", "--phone", phone, who="games.admin")).output
        held = json.loads(daily.output)["run"]
        assert "is paused" in (await corral(served, "pause", held)).output
        assert "goes on" in (await corral(served, "resume", held)).output


async def test_a_run_that_plays_stands_still_where_it_is_and_goes_on(tmp_path: Path) -> None:
    write_scenario(tmp_path, "long", "seconds=60")
    async with open_served(farm_config(tmp_path)) as served:
        run = (await corral(served, "submit", "long")).output.strip()
        async with open_door(served, run) as door:
            held = await corral(served, "pause", run, "--hold")
            assert (held.exit_code, "stands still" in held.output) == (0, True), held.output
            assert door.asked[-1] == {"command": "hold", "by": "operator-games"}
            assert json.loads((await corral(served, "show", run, "--json")).output)["state"] == "running"
            assert "goes on" in (await corral(served, "resume", run)).output
            assert door.asked[-1]["command"] == "go_on"
        for words, code, says in (
            (("pause", run, "--hold"), 1, "no run is under way"),
            (("pause", "--phone", "10.0.0.1:5555", "--hold"), 2, "--hold is for a RUN"),
        ):
            refused = await corral(served, *words)
            assert (refused.exit_code, says in refused.stderr) == (code, True), refused.output
        assert (await corral(served, "pause", run, "--hold", who="games.viewer")).exit_code == 1
        assert (await corral(served, "pause", run, "--hold", who="other.operator")).exit_code == 1


async def test_refusals_are_one_line_and_an_exit_code(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        for words, code, says in (
            (("submit", "nothing"), 1, "no scenario 'nothing'"),
            (("submit", "../good"), 2, "must be the name of a scenario"),
            (("submit", "good", "--not-before", "tomorrow"), 2, "a time with its offset"),
            (("submit", "good", "--daily", "3pm"), 2, "a time like 03:30"),
            (("show", "nobody"), 1, "no run 'nobody'"),
            (("cancel", "a/../b"), 1, "Not Found"),
            (("drain",), 1, "needs the role admin"),
            (("pause",), 2, "give a RUN or --phone"),
            (("resume",), 2, "give a RUN or --phone"),
            (("list", "--state", "sleeping"), 2, "'state' is one of"),
            (("list", "--url", "ftp://x"), 2, "must be like"),
            (("list", "--url", "http://127.0.0.1:1"), 3, "does not answer"),
        ):
            done = await corral(served, *words)

            assert done.exit_code == code, (words, done.output)
            assert says in done.stderr, (words, done.output)
            assert "Traceback" not in done.output
        assert (await corral(served, "list", who="nobody")).exit_code == 1


def test_without_a_token_it_says_how_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORRAL_TOKEN", raising=False)

    done = CliRunner().invoke(farm, ["list"])

    assert done.exit_code == 2
    assert "CORRAL_TOKEN" in done.stderr


def test_check_backup_and_restore(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    file = tmp_path / "farm.toml"
    file.write_text('[[phones]]\nname = "sim"\nkind = "simulated"\ncount = 2\n')
    bad = tmp_path / "bad.toml"
    bad.write_text(
        '[farm]\nscenarios = "nowhere"\nvendor = "none.toml"\n[[phones]]\nname = "s"\nkind = "simulated"\ncount = 1\n'
    )
    backup = str(tmp_path / "backup")
    invoke = CliRunner().invoke

    assert "2 phones" in invoke(farm, ["check", str(file)]).output
    wrong = invoke(farm, ["check", str(bad)])
    assert wrong.exit_code == 2
    assert len(wrong.stderr.splitlines()) == 2
    assert "cannot be read" in invoke(farm, ["check", str(tmp_path / "none")]).stderr
    never = invoke(farm, ["backup", str(file), backup])
    assert (never.exit_code, "never run" in never.stderr) == (3, True)
    Path(backup).write_bytes(os.urandom(4096))
    assert invoke(farm, ["restore", str(file), backup]).exit_code == 3
    no_tokens = invoke(farm, ["serve", str(file)])
    assert (no_tokens.exit_code, "corral token create" in no_tokens.stderr) == (2, True)
