"""What is wrong with a scenario is told before anything is started, where it is."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli.engine_rehearsal import argument_problems
from actors.cli.main import corral

SCENARIO = """name = "s"
[apps.a]
goal = "g"
package = "p.q"
[[phones]]
kind = "simulated"
app = "battler"
[[engines]]
id = "e"
launch = { kind = "rehearsal", args = ["--ttft-sm", "120"] }
"""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--blind", "--ttft-ms", "120"], None),
        (["--ttft-sm", "120"], "--ttft-sm"),
        (["--tpot-ms", "soon"], "--tpot-ms"),
        (["--curve", "1;2"], "--curve"),
        (["--help"], "starts no engine"),
        (["--vision-cache", "0"], "--vision-cache must be at least 1"),
        (["--model", "qwen"], "--model must start with"),
        (["--curve", "1:5", "--tpot-ms", "3"], "--curve cannot be joined"),
    ],
)
def test_a_rehearsal_engines_arguments(args: list[str], said: str | None) -> None:
    problems = argument_problems(args)

    assert (said is None) == (problems == [])
    assert said is None or said in problems[0]


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_wrong_argument_of_an_engine_is_told_with_its_line(command: str, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO.replace('app = "battler"', 'app = "a"'))

    done = CliRunner().invoke(corral, [command, str(file)])

    assert done.exit_code == 2
    assert "s.toml:10: " in done.stderr
    assert "--ttft-sm" in done.stderr
    assert "$.engines[0].launch.args" in done.stderr


def test_wrong_keys_and_what_does_not_fit_together_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    text = SCENARIO.replace('app = "battler"', 'app = "chess"').replace("--ttft-sm", "--ttft-ms")
    file.write_text(text.replace('goal = "g"', 'goal = "g"\nneeded_wait_seconds = "9"') + 'max_in_flight = "4"\n')

    done = CliRunner().invoke(corral, ["check", str(file)])

    assert done.exit_code == 2
    told = [line.rpartition(" @ ")[2] for line in done.stderr.splitlines()]
    assert told == ["$.apps.a.needed_wait_seconds", "$.engines[0].max_in_flight", "$.phones[0].app"]


def test_a_key_that_is_left_out_for_its_mistake_makes_no_other(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        SCENARIO.replace('app = "battler"', 'app = "a"').replace(
            'launch = { kind = "rehearsal", args = ["--ttft-sm", "120"] }', "url = 7"
        )
    )

    done = CliRunner().invoke(corral, ["check", str(file)])

    assert [line.rpartition(" @ ")[2] for line in done.stderr.splitlines()] == ["$.engines[0].url"]
