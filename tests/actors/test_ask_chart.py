"""Charts in a terminal and in files."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ask_chart import ChartError, check_chart_path, terminal_chart, write_chart

SPEC = {"mark": "bar", "encoding": {"x": {"field": "day"}, "y": {"field": "plays"}}}


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = terminal_chart(["day", "plays"], [["mon", 10], ["tue", "5.0"], ["wed", None], ["thu", 0]], SPEC, 60)

    longest = lines[0].count("█")
    assert [line.count("█") for line in lines] == [longest, -(-longest // 2), 0, 0]
    assert [line.split()[0] for line in lines] == ["mon", "tue", "wed", "thu"]
    assert lines[0].endswith(" 10")
    assert all(len(line) <= 60 for line in lines)


def test_the_specification_says_which_column_is_meant() -> None:
    spec = {"encoding": {"x": {"field": "b"}, "y": {"field": "name"}}}
    lines = terminal_chart(["name", "a", "b"], [["x", 1, 30], ["y", 2, 40]], spec, 60)

    assert lines[1].startswith("y ")
    assert lines[1].endswith(" 40")


def test_many_rows_become_a_line() -> None:
    lines = terminal_chart(["day", "plays"], [[str(number), number] for number in range(100)], {}, 50)

    assert len(lines) == 2
    assert len(lines[0]) == 50
    assert (lines[0][0], lines[0][-1]) == ("▁", "█")
    assert lines[1] == "plays: 0 to 99, 100 rows"


def test_where_there_is_nothing_to_draw_nothing_is_drawn() -> None:
    assert terminal_chart(["a"], [["x"], ["y"]], SPEC, 60) == ()
    assert terminal_chart(["a", "b"], [["x", 1]], SPEC, 60) == ()
    assert terminal_chart([], [], {}, 60) == ()


@given(
    st.lists(
        st.tuples(st.text(max_size=5), st.none() | st.floats() | st.integers() | st.text(max_size=5)), max_size=40
    ),
    st.integers(20, 100),
)
def test_no_answer_breaks_the_chart(rows: list[tuple[object, object]], width: int) -> None:
    for line in terminal_chart(["name", "value"], rows, SPEC, width):
        assert "\n" not in line


def test_files_by_their_name(tmp_path: Path) -> None:
    spec = {**SPEC, "data": {"values": [{"name": "北京", "value": 1}]}}
    for name in ("a.json", "a.svg", "a.PNG"):
        check_chart_path(tmp_path / name)
        write_chart(spec, tmp_path / name)

    assert json.loads((tmp_path / "a.json").read_text()) == spec
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert (tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match="cannot be drawn"):
        write_chart({**SPEC, "data": {"url": "http://127.0.0.1:9/a.json"}}, tmp_path / "a.svg")
    with pytest.raises(ChartError, match=r"\.json \(Vega-Lite\), \.svg or \.png"):
        check_chart_path(tmp_path / "a.gif")
    with pytest.raises(ChartError, match="No such file or directory"):
        write_chart(SPEC, tmp_path / "none" / "a.json")
