"""`corral replay` and `corral report`: which episodes, and what is said of those that are not whole."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli.main import corral
from tests.kit.run_folder import EPISODE, run_folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_folder(tmp_path, steps=3)


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(corral, ["replay", *map(str, arguments)])


@pytest.mark.parametrize("which", [EPISODE, "P"])
def test_an_episode_is_found_by_its_id_or_its_phone(run: Path, which: str) -> None:
    result = replay(run, which)

    assert result.exit_code == 0, result.output
    assert result.output == f"{EPISODE}: 3 steps: same decisions\n"


def test_a_phone_has_all_of_its_episodes_replayed(run: Path) -> None:
    shutil.copytree(run / "episodes" / EPISODE, run / "episodes" / "run-P-1")

    assert len(replay(run, "P").output.splitlines()) == 2
    assert len(replay(run, EPISODE).output.splitlines()) == 1


def test_an_unknown_one_lists_those_there_are(run: Path) -> None:
    result = replay(run, "Q")

    assert result.exit_code == 2
    assert result.output == f"Error: {run}: it has no episode and no phone 'Q'; there are {EPISODE} (phone P)\n"


def test_an_episode_without_a_record_is_named_and_the_others_are_replayed(run: Path) -> None:
    (run / "episodes" / "run-Q-0").mkdir()

    result = replay(run)

    assert result.exit_code == 2
    assert f"{EPISODE}: 3 steps" in result.output
    assert f"Error: {run / 'episodes' / 'run-Q-0'}: it has no steps.jsonl, so it cannot be replayed" in result.output
    assert replay(run, EPISODE).exit_code == 0


def test_a_run_whose_every_record_is_lost_says_so(run: Path) -> None:
    (run / "episodes" / EPISODE / "steps.jsonl").unlink()

    result = replay(run)

    assert result.exit_code == 2
    assert f"{run / 'episodes' / EPISODE}: it has no steps.jsonl" in result.output
