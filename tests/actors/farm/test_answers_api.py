"""Answers as pictures and as files: what is drawn and written, and what is refused."""

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import trio

from actors.farm.chart_drawing import AT_A_TIME, WAITING, ChartDrawer, DrawingBusy
from actors.farm.chart_spec import MAX_ROWS, ChartRefused, drawable
from actors.farm.client import FarmRefused
from actors.farm.tables import MAX_CELLS, MAX_TEXT, TableWrong, file_name, parse_table, write_table
from tests.kit.farm import farm_config, open_served

CHARTS, TABLES = "/api/v1/charts", "/api/v1/tables"


def chart(**parts: Any) -> dict[str, Any]:
    """As the assistant sends it."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": [{"server": "</svg><script>alert(1)</script>", "n": 3}, {"server": "北京", "n": 5}]},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "server", "type": "nominal", "title": "服务器", "sort": None},
            "x": {"field": "n", "type": "quantitative"},
        },
        "width": "container",
        **parts,
    }


async def test_a_chart_is_a_picture_in_which_nothing_runs(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        drawn = await served.call("games.viewer", "POST", CHARTS, chart())
        again = await served.call("games.viewer", "POST", CHARTS, chart())

        root = ET.fromstring(drawn.body)  # our own picture
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert names & {"script", "image", "foreignObject", "a", "use"} == set()
        assert "北京" in drawn.body.decode()
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert drawn.headers["content-security-policy"].startswith("default-src 'none'")
        assert drawn.headers["content-security-policy"].endswith("sandbox")
        assert again.body == drawn.body
        with pytest.raises(FarmRefused) as refused:
            await served.call("games.viewer", "POST", CHARTS, chart(data={"url": "file:///etc/passwd"}))
        assert (refused.value.status, str(refused.value)) == (422, "'data.url' is not drawn here")


HOSTILE: dict[str, dict[str, Any]] = {
    "data of elsewhere": {"data": {"url": "http://127.0.0.1/"}},
    "named data": {"data": {"values": [], "name": "x"}},
    "data that grows": {"data": {"sequence": {"start": 0, "stop": 1e12}}},
    "datasets": {"datasets": {"a": []}},
    "a loader": {"usermeta": {"embedOptions": {"loader": {}}}},
    "pictures": {"mark": {"type": "image", "url": "http://127.0.0.1/a.png"}},
    "pictures by channel": {"encoding": {"url": {"value": "http://127.0.0.1/a.png"}}},
    "links": {"encoding": {"href": {"value": "javascript:alert(1)"}}},
    "links of a mark": {"mark": {"type": "bar", "href": "javascript:alert(1)"}},
    "expressions": {"encoding": {"x": {"value": {"expr": "warn(1)"}}}},
    "parameters": {"params": [{"name": "a", "expr": "1"}]},
    "transforms": {"transform": [{"calculate": "1", "as": "a"}]},
    "labels that compute": {"encoding": {"x": {"field": "n", "axis": {"labelExpr": "1"}}}},
    "long formats": {"encoding": {"x": {"field": "n", "axis": {"format": "1000000000d"}}}},
    "many bins": {"encoding": {"x": {"field": "n", "bin": {"maxbins": 10**9}}}},
    "a huge picture": {"width": 10**9},
    "steps": {"width": {"step": 10**6}},
    "facets": {"encoding": {"row": {"field": "n"}}},
    "geography": {"mark": "geoshape"},
    "numbers that are none": {"data": {"values": [{"n": float("inf")}]}},
    "too large numbers": {"data": {"values": [{"n": 10**400}]}},
    "nests": {"data": {"values": [{"n": {"a": 1}}]}},
    "too many rows": {"data": {"values": [{"n": 1}] * (MAX_ROWS + 1)}},
    "no mark": {"mark": None},
    "a list as a mark": {"mark": ["bar"]},
    "another library": {"$schema": "https://vega.github.io/schema/vega/v5.json"},
    "texts that never end": {"title": "x" * 10_000},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_known_is_not_drawn(name: str) -> None:
    with pytest.raises(ChartRefused):
        drawable(chart(**HOSTILE[name]))


def test_a_chart_needs_all_its_parts() -> None:
    for part in ("data", "mark", "encoding"):
        with pytest.raises(ChartRefused, match=f"'{part}' is missing"):
            drawable({key: value for key, value in chart().items() if key != part})


async def test_parts_that_do_not_fit_are_refused_and_the_next_chart_is_drawn() -> None:
    drawer = ChartDrawer()
    odd = chart(data={"values": [{"server": "\ud800", "n": "x"}]}, title="{{}}", mark="bar")

    assert b"<svg" in await drawer.draw(odd)
    assert b"<svg" in await drawer.draw(chart(mark="line"))


async def test_what_draws_too_long_or_dies_ends_one_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    drawer, module = ChartDrawer(), "actors.farm.chart_drawing"
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}._PROGRAM", ("/bin/sleep", "60"))
        patch.setattr(f"{module}.SECONDS", 0.2)
        with pytest.raises(ChartRefused, match=r"not drawn within 0\.2 s"):
            await drawer.draw(chart())
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}._PROGRAM", ("/bin/sh", "-c", "kill -ABRT $$"))
        with pytest.raises(ChartRefused, match="the log says why"):
            await drawer.draw(chart())

    assert b"<svg" in await drawer.draw(chart())


async def test_only_so_many_wait_for_their_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.farm.chart_drawing._PROGRAM", ("/bin/sleep", "60"))
    drawer = ChartDrawer()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for number in range(AT_A_TIME + WAITING):
                nursery.start_soon(drawer.draw, chart(title=str(number)))
            while drawer.waiting < WAITING:
                await trio.sleep(0.01)
            with pytest.raises(DrawingBusy):
                await drawer.draw(chart())
            nursery.cancel_scope.cancel()


def table(kind: str, **parts: Any) -> dict[str, Any]:
    rows = [
        ["=cmd|'/c calc'!A0", 1],
        ["+1+1", -2.5],
        ["-12.50", None],
        ["@SUM(A1)", True],
        ["\tx", 0],
        ["北京", 10**20],
    ]
    return {"format": kind, "columns": ["=name", "n"], "rows": rows, "name": "收入 by/day: 1", **parts}


async def test_rows_become_files_with_a_safe_name(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        answer = await served.call("games.viewer", "POST", TABLES, table("csv"))
        book = await served.call("games.viewer", "POST", TABLES, table("xlsx"))

        rows = list(csv.reader(io.StringIO(answer.body.decode("utf-8-sig"), newline="")))
        assert rows[0] == ["'=name", "n"]
        assert [row[0] for row in rows[1:]] == ["'=cmd|'/c calc'!A0", "'+1+1", "-12.50", "'@SUM(A1)", "'\tx", "北京"]
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == (
            "attachment; filename=\"answer.csv\"; filename*=UTF-8''%E6%94%B6%E5%85%A5%20by%20day%201.csv"
        )
        assert "spreadsheetml" in book.headers["content-type"]
        with zipfile.ZipFile(io.BytesIO(book.body)) as parts:
            sheet = parts.read("xl/worksheets/sheet1.xml").decode()
            texts = parts.read("xl/sharedStrings.xml").decode()
        assert "<f>" not in sheet  # not one formula
        assert "=cmd|" in texts
        assert str(10**20) in texts  # a number would be rounded
        with pytest.raises(FarmRefused) as refused:
            await served.call("games.viewer", "POST", TABLES, table("pdf"))
        assert refused.value.status == 422


def test_decimals_are_numbers_where_the_types_say_so() -> None:
    given = {"format": "xlsx", "columns": ["a", "b"], "types": ["decimal", "text"], "rows": [["12.50", "12.50"]]}
    with zipfile.ZipFile(io.BytesIO(write_table(parse_table(given)))) as parts:
        sheet = parts.read("xl/worksheets/sheet1.xml").decode()

    assert "<v>12.5</v>" in sheet
    assert sheet.count('t="s"') == 3


WRONG_TABLES: list[dict[str, Any]] = [
    {"columns": []},
    {"columns": "a"},
    {"columns": [1, 2]},
    {"rows": [["a"]]},
    {"rows": [["a", {"b": 1}]]},
    {"rows": [["a", "x" * (MAX_TEXT + 1)]]},
    {"rows": [["a", 1]] * (MAX_CELLS // 2 + 1)},
    {"rows": {}},
    {"types": ["text"]},
    {"name": 5},
    {"other": 5},
    {"format": ["csv"]},
]


@pytest.mark.parametrize("parts", WRONG_TABLES, ids=lambda parts: json.dumps(parts)[:30])
def test_what_is_no_table_is_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(TableWrong):
        parse_table(table("csv", **parts))


def test_odd_characters_are_written_and_names_lead_nowhere() -> None:
    for kind in ("csv", "xlsx"):
        assert write_table(parse_table(table(kind, rows=[["\ud800\x00\x01\u202e", float("nan")]])))
    assert file_name("../../etc/passwd") == "etc passwd"
    assert file_name('a"\r\nset-cookie: x;\u202e') == "a set-cookie x"
    assert file_name(" .. ") == file_name("") == "answer"
    assert len(file_name("长" * 500)) == 80
