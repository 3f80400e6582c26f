"""Every check against its fixture file: adding an attack is adding a line.

A line is `{"sql": ..., "code": ...}` for what must be refused with this code, or `{"sql": ..., "out": ...}` for what
must pass and come out as this text; `dialect` is mariadb where it is not named.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlassist.catalog import Dialect
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from tests.kit.sql import game_catalog

FIXTURES = Path(__file__).parent / "fixtures"
GUARD = Path(__file__).resolve().parents[3] / "sqlassist" / "guard"


def _lines() -> Iterator[Any]:
    for path in sorted(FIXTURES.glob("*.jsonl")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            yield pytest.param(json.loads(line), id=f"{path.stem}:{number}")


@pytest.mark.parametrize("line", list(_lines()))
def test_the_guard_decides_as_the_fixture_says(line: dict[str, str]) -> None:
    result = check(line["sql"], game_catalog(Dialect(line.get("dialect", "mariadb"))))

    if "code" in line:
        assert isinstance(result, Refusal), f"passed as {result.sql}"
        assert line["code"] == result.code
        assert result.hint
        assert len(result.where) <= 80
    else:
        assert isinstance(result, CheckedQuery), str(result)
        assert line["out"] == result.sql


@pytest.mark.parametrize("line", [entry for entry in _lines() if "out" in entry.values[0]])
def test_what_passes_passes_again_unchanged(line: dict[str, str]) -> None:
    catalog = game_catalog(Dialect(line.get("dialect", "mariadb")))

    again = check(line["out"], catalog)

    assert isinstance(again, CheckedQuery), str(again)
    assert line["out"] == again.sql


def test_each_check_has_a_fixture_file() -> None:
    checks = {
        "characters",
        "tokens",
        "precedence",
        "roots",
        "nodes",
        "functions",
        "names",
        "joins",
        "patterns",
        "bounds",
    }

    assert checks | {"regenerate", "headings"} == {path.stem for path in FIXTURES.glob("*.jsonl")}
    assert all((GUARD / f"{path.stem}.py").exists() for path in FIXTURES.glob("*.jsonl"))
