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
