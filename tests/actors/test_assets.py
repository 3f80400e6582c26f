"""Files that a scenario or a command names: whatever is wrong with one is a line for its author."""

import struct
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.assets import load_picture, read_file
from actors.cli.main import corral
from actors.configuration import ScenarioError, read_toml


def png_claiming(width: int, height: int) -> bytes:
    """A PNG header without pixels."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


BAD_PICTURES = {
    "empty": b"",
    "text": b"no picture",
    "magic only": b"\x89PNG\r\n\x1a\n",
    "huge": png_claiming(2**30, 2**30),
    "no pixels": png_claiming(0, 0),
}


@pytest.fixture(params=sorted(BAD_PICTURES))
def bad_picture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "bad.png"
    path.write_bytes(BAD_PICTURES[request.param])
    return path


def test_a_file_that_is_no_picture_is_a_problem_line(bad_picture: Path) -> None:
    with pytest.raises(ScenarioError, match=r"bad\.png: .*picture"):
        load_picture(bad_picture)


def test_commands_refuse_a_picture_that_cannot_be_read_with_2(bad_picture: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[probes.x]\nkind = "template"\npicture = "bad"\n')

    for arguments in (
        ["author", str(bad_picture), "--no-browser"],
        ["rules", "test", str(rules), "--on", str(bad_picture)],
        ["model", "check", "compact", str(bad_picture), "--reply", "T1,1"],
    ):
        result = CliRunner().invoke(corral, arguments)

        assert result.exit_code == 2, (arguments, result.output, result.exception)
        assert result.output.startswith("Error: ")


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "x" * 5000])
def test_a_name_that_no_file_can_have_is_a_problem_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError):
        read_file(tmp_path / name)


def test_an_author_target_with_a_nul_exits_with_2() -> None:
    result = CliRunner().invoke(corral, ["author", "a\0b.png", "--no-browser"])

    assert result.exit_code == 2, result.exception


@pytest.mark.parametrize("source", ["x = " + "[" * 5000 + "]" * 5000, "x = " + "{a=" * 5000 + "1" + "}" * 5000])
def test_toml_that_is_nested_too_deep_is_a_problem_line(source: str) -> None:
    with pytest.raises(ScenarioError, match=r"deep\.toml: nested too deep"):
        read_toml(source.encode(), "deep.toml")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-5", "0"])
def test_a_timeout_that_is_no_time_exits_with_2(seconds: str, tmp_path: Path) -> None:
    arguments = ["model", "check", "compact", str(tmp_path / "x.png"), "--reply", "T1,1", "--timeout", seconds]
    result = CliRunner().invoke(corral, arguments)

    assert result.exit_code == 2
    assert "finite number of seconds above 0" in result.output


def test_files_that_cannot_be_written_are_refused_before_the_start(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "x"

    for arguments, option in (
        (["phones", "simulate", "--base-port", "0", "--ready-file", str(nowhere)], "--ready-file"),
        (["run", str(tmp_path / "s.toml"), "--view-svg", str(nowhere)], "--view-svg"),
    ):
        result = CliRunner().invoke(corral, arguments)

        assert result.exit_code == 2
        assert option in result.output
        assert "is no folder that can be written" in result.output
