"""The live view at every width and in every encoding: what matters most stays readable."""

import io
from typing import Any

import attrs
import pytest
from rich.console import Console
from rich.live import Live

from actors.live import SVG_COLUMNS, columns_for, render, svg_for
from actors.phone_status import PhoneStatus
from inference.pool import PoolStatistics

STATUS = PhoneStatus(
    phone="CORRAL0001", app="battler", state="playing", step=1234, score=567.0, action="swipe 100,200,300,400",
    why="plan on frame 4 of request 17", capture_ms=12.0, plan_ms=345.0, stale=2, no_effect=3, stall=0.25,
    outcome="", lost=0,
)  # fmt: skip
ROWS = [
    STATUS,
    attrs.evolve(STATUS, phone="127.0.0.1:16001", state="needs_human", step=56789, score=1234567.0),
    attrs.evolve(STATUS, phone="CORRAL0003", outcome="quarantined", step=7, score=None, why="[red]Zähler[/x] ▶\x1b[2J"),
]
ALWAYS = [
    ("CORRAL0001", "playing", "1234", "567"),
    ("127.0.0.1:16001", "needs_human", "56789", "1234567"),
    ("CORRAL0003", "quarantined", "7", "-"),
]


def drawn(width: int, encoding: str = "utf-8", rows: list[PhoneStatus] = ROWS, **options: Any) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)  # strict: raises on what it cannot hold
    console = Console(file=file, width=width, **options)
    pool = PoolStatistics(engines=(), completed=12, **_rest())
    console.print(render(rows, pool, 9.0, "test  20260101T000000Z-abcdef", width=width, encoding=console.encoding))
    return raw.getvalue().decode(encoding)


def _rest() -> dict[str, Any]:
    known = {"engines", "completed"}
    return {field.name: 0 for field in attrs.fields(PoolStatistics) if field.name not in known}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("width", [47, 60, 80, 100, 160, 250])
def test_phone_state_step_and_score_are_whole_at_every_width(width: int, encoding: str) -> None:
    lines = drawn(width, encoding).splitlines()

    assert max(map(len, lines)) <= width
    for phone, *rest in ALWAYS:
        (line,) = [line for line in lines if phone in line]
        words = line.replace("│", " ").replace("|", " ").split()
        assert all(word in words for word in rest), line
    assert all(name in drawn(width, encoding) for name in ("phone", "state", "step", "score"))


def test_forty_columns_hold_a_serial_number_and_fold_a_longer_one() -> None:
    rows = [STATUS, attrs.evolve(STATUS, phone="CORRAL0002", state="quarantined", step=99999, score=-12.5)]
    lines = drawn(40, rows=rows).splitlines()

    assert any(line.split() == ["CORRAL0001", "playing", "1234", "567"] for line in lines), lines
    assert any(line.split() == ["CORRAL0002", "quarantined", "99999", "-12.5"] for line in lines), lines

    long = attrs.evolve(STATUS, phone="a-cloud-phone-with-a-long-serial", state="quarantined")
    lines = drawn(40, rows=[long]).splitlines()
    start = next(n for n, line in enumerate(lines) if "quarantined" in line)
    assert "".join([lines[start].split()[0], *(line.strip() for line in lines[start + 1 : -2])]).startswith(long.phone)


def test_columns_leave_in_the_order_of_their_worth() -> None:
    always = ["phone", "state", "step", "score"]
    rows = [STATUS]

    assert columns_for(rows, 40) == always
    assert columns_for(rows, 80) == ["phone", "app", "state", "step", "score", "last action"]
    assert len(columns_for(rows, 250)) == 13
    counts = [len(columns_for(rows, width)) for width in range(20, 200)]
    assert counts == sorted(counts)
    assert "why" not in columns_for(rows, 120)


def test_an_ascii_terminal_gets_ascii_only_also_while_it_is_redrawn() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    console = Console(file=file, width=80, height=5, force_terminal=True)
    view = render(
        ROWS * 9, PoolStatistics(engines=(), completed=1, **_rest()), 1.0, "Zähler", width=80, encoding="ascii"
    )
    with Live(view, console=console, auto_refresh=False) as live:
        live.update(view, refresh=True)

    assert raw.getvalue().isascii()
    assert b"CORRAL0001" in raw.getvalue()


def test_words_of_a_model_are_no_markup_and_no_escape_sequence() -> None:
    text = drawn(250)

    assert "[red]Zähler[/x] ▶" in text
    assert "\x1b[2J" not in text


def test_the_picture_of_the_view_has_every_column() -> None:
    pool = PoolStatistics(engines=(), completed=1, **_rest())
    svg = svg_for(render([STATUS], pool, 1.0, "test", width=SVG_COLUMNS), "test")

    assert all(name in svg for name in ("phone", "score", "last&#160;action", "why"))


def test_connections_are_shown_and_what_to_do_about_them_at_every_width() -> None:
    remedy = "allow this computer on the phone's screen"
    away = attrs.evolve(STATUS, phone="CORRAL0002", connection="unauthorized", state="unauthorized", remedy=remedy)
    rows = [
        attrs.evolve(STATUS, connection="ready"),
        away,
        attrs.evolve(STATUS, phone="CORRAL0003", connection="silent"),
    ]
    (line,) = [line for line in drawn(160, rows=rows).splitlines() if "CORRAL0003" in line]
    assert "silent" in line
    for width in (60, 160):
        words = " ".join(drawn(width, rows=rows).split())
        assert "connections: 1 silent, 1 unauthorized" in words
        assert f"CORRAL0002: {remedy}" in words
    over = [attrs.evolve(row, outcome="cancelled") for row in rows]
    assert "connections:" not in drawn(160, rows=over)
    assert remedy not in drawn(160, rows=over)
