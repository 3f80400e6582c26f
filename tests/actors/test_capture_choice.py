"""How a scenario says by what method pictures are taken, and bots that play over a video stream."""

from pathlib import Path
from typing import Any

import pytest
import trio

from actors.assets import load_assets
from actors.configuration import ScenarioError
from actors.devices.base import CaptureMethod, Driver
from actors.fleet import Fleet
from actors.scenario import AdbPhones, SimulatedPhones, parse_scenario
from actors.simulated import stand_in_server
from tests.kit.scenarios import SCENARIOS, needs_adb, run_text, scenario_text, summary_of

REAL = '[[phones]]\nkind = "adb"\napp = "battler"\naddresses = ["10.0.0.7:5555"]\n'


def parsed(extra: str) -> Any:
    return parse_scenario((scenario_text() + REAL + extra).encode(), "t.toml")


def problems_of(extra: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parsed(extra)
    return [str(problem) for problem in caught.value.problems]


def test_real_phones_choose_by_themselves_and_simulated_ones_are_raw() -> None:
    simulated, _, real = parsed("").phones

    assert isinstance(simulated, SimulatedPhones)
    assert isinstance(real, AdbPhones)
    assert (simulated.capture, real.capture, real.driver) == (CaptureMethod.RAW, CaptureMethod.AUTO, Driver.NATIVE)
    named = parsed('capture = "scrcpy"\nscrcpy_server = "s.jar"\ndriver = "adbutils"\n').phones[2]
    assert (named.capture, named.scrcpy_server, named.driver) == (CaptureMethod.SCRCPY, "s.jar", Driver.ADBUTILS)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ('capture = "scrcpy"', "scrcpy_server = PATH"),
        ('capture = "png"\nscrcpy_server = "s.jar"', "of no use with capture = 'png'"),
        ('capture = "minicap"', "minicap"),
        ('driver = "telnet"', "telnet"),
    ],
)
def test_mistakes_are_told_with_their_place(extra: str, words: str) -> None:
    (problem,) = problems_of(extra + "\n")

    assert words in problem
    assert "phones[2]" in problem


def test_a_server_file_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    scenario = parsed('scrcpy_server = "no/such.jar"\n')
    with pytest.raises(ScenarioError) as caught:
        load_assets(scenario, SCENARIOS)
    assert [p.path for p in caught.value.problems] == ["$.phones[2].scrcpy_server"]
    assert "no/such.jar" in str(caught.value.problems[0])

    there = parsed(f'scrcpy_server = "{stand_in_server(tmp_path)}"\n')
    assert load_assets(there, SCENARIOS)["battler"].folder == SCENARIOS


class TestPlaying:
    pytestmark = needs_adb

    async def test_bots_play_on_what_a_video_stream_shows(self, tmp_path: Path) -> None:
        """The stream's pictures follow the game: planned taps land, and their effects are seen."""
        used: set[str] = set()

        async def watch(fleet: Fleet) -> None:
            while any(job.session is not None for job in fleet.jobs):
                for job in fleet.jobs:
                    if job.device is not None:
                        used.add(job.device.statistics().capture_method)
                await trio.sleep(0.2)

        sets = {f"phones[{n}].capture": "scrcpy" for n in range(2)} | {"limits.seconds": "10"}
        result = await run_text(scenario_text(), tmp_path, watch, sets)

        episodes = summary_of(result)["episodes"]
        assert used == {"scrcpy"}
        assert {episode["app"] for episode in episodes} == {"battler", "errands"}
        for episode in episodes:
            assert episode["steps"] > 10
            assert episode["actions"]["planned"] + episode["actions"]["reflex"] > 3
            assert episode["no_effect"] <= episode["actions"]["planned"] / 2
            assert episode["bad_frames"] == {}
