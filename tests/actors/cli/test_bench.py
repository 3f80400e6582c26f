import json
from pathlib import Path

from click.testing import CliRunner

from actors.cli.main import corral

RULES = Path(__file__).parents[3] / "scenarios" / "battler.rules.toml"


def test_a_table_is_printed_and_everything_measured_is_written(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks" / "overlap.json"
    command = ["bench", "overlap", "--pairs", "1", "--seconds", "5", "--rules", str(RULES), "--json", str(file)]
    result = CliRunner().invoke(corral, command)
    written = json.loads(file.read_text("utf-8"))

    assert result.exit_code == 0, result.output
    assert result.stdout.strip().endswith(str(file))
    assert "no overlap" in result.stdout
    assert [row["variant"] for row in written["rows"]] == ["no latency", "overlap", "no overlap", "strict age"]
    assert {"command", "commit", "machine", "measured_at", "summary", "notes"} <= set(written)
    assert written["machine"]["cores"] >= 1


def test_rules_that_are_not_there_are_wrong_input(tmp_path: Path) -> None:
    result = CliRunner().invoke(corral, ["bench", "overlap", "--rules", str(tmp_path / "none.toml")])

    assert result.exit_code == 2
    assert "none.toml" in result.stderr


def test_a_file_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = str(tmp_path / "file" / "overlap.json")
    command = ["bench", "overlap", "--pairs", "1", "--seconds", "1", "--rules", str(RULES), "--json", target]
    result = CliRunner().invoke(corral, command)

    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
