"""The table of field reports names every test of one, and no other."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[3] / "docs" / "field-reports.md"


MORE = {"test_05_our_own_server_that_hangs_is_given_up_for_another"}
"""Second tests of one report."""


def test_the_table_is_complete() -> None:
    written = re.findall(r"^async def (test_\d\d_\w+)|^def (test_\d\d_\w+)", _sources(), re.MULTILINE)
    tests = sorted(one or other for one, other in written)
    rows = re.findall(r"^\| (\d+) \|.*\| `(test_(\d\d)_\w+)` \|$", TABLE.read_text("utf-8"), re.MULTILINE)

    assert [name for _, name, _ in rows] == [name for name in tests if name not in MORE]
    assert [int(number) for number, _, _ in rows] == list(range(1, 35))
    assert all(int(number) == int(in_name) for number, _, in_name in rows)


def _sources() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(HERE.glob("test_*_reports.py")))
