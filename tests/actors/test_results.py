"""Summaries, JUnit, charts and the page: right numbers, hostile words, half-written folders."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.results.charts import bar_chart, ledger_chart, line_chart
from actors.results.folder import read_episodes
from actors.results.json_lines import read_lines
from actors.results.junit import junit_for
from actors.results.record import RecordUnreadable, encode_output
from actors.results.replay import replay_episode
from actors.results.report import compare, write_report
from actors.results.summary import exit_code_for, failed_by_infrastructure, percentiles, summary_for, totals_of
from policies.criteria import Outcome
from policies.episode import EpisodePolicy
from policies.step import EpisodeSettings, StepInput
from policies.tally import Tally
from runtime.ids import EpisodeId
from tests.kit.percepts import percept
from tests.kit.run_folder import EPISODE, HOSTILE, RUN, row, run_folder


@pytest.mark.parametrize(
    ("seconds", "p50", "p95"), [([0.1], 100, 100), ([0.1, 0.2], 100, 200), ([n / 100 for n in range(1, 101)], 500, 950)]
)
def test_percentiles_are_nearest_rank(seconds: list[float], p50: float, p95: float) -> None:
    assert (percentiles(seconds).p50, percentiles(seconds).p95) == (p50, p95)


def test_percentiles_of_nothing_are_none() -> None:
    assert percentiles([]).p50 is None


def test_totals_weigh_stall_by_time_and_hold_for_no_episodes() -> None:
    long = row(tally=Tally(active_seconds=30.0, stall_seconds=3.0, plans_requested=2, plans_completed=2))
    short = row(tally=Tally(active_seconds=10.0, stall_seconds=9.0), outcome=Outcome.FAILED)

    totals = totals_of([long, short])

    assert totals["stall_fraction"] == pytest.approx(12 / 40)
    assert totals["outcomes"] == {"succeeded": 1, "failed": 1, "quarantined": 0, "cancelled": 0}
    assert totals["plans"]["completed"] == 2
    assert totals_of([])["actions"]["planned"] == 0


def summaries(*outcomes: tuple[Outcome, str, int]) -> list[Any]:
    common = {
        "phone": "P", "episode": "e", "app": "a", "seed": 1, "reason": "", "score": None, "captures": [], "plans": [],
        "acts": [], "engines": [], "models": [], "replayable": True,
    }  # fmt: skip
    return [summary_for(Tally(steps=steps), outcome=o, bot=bot, **common) for o, bot, steps in outcomes]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("episodes", "code"),
    [
        ([(Outcome.SUCCEEDED, "planned", 1)], 0),
        ([(Outcome.SUCCEEDED, "planned", 1), (Outcome.FAILED, "planned", 1)], 1),
        ([(Outcome.SUCCEEDED, "planned", 1), (Outcome.FAILED, "random", 1)], 0),
        ([(Outcome.FAILED, "random", 1)], 1),
        ([], 1),
    ],
)
def test_a_baseline_does_not_spoil_the_exit_code(episodes: list[tuple[Outcome, str, int]], code: int) -> None:
    assert exit_code_for(summaries(*episodes)) == code


def test_phones_that_never_played_are_an_infrastructure_failure() -> None:
    assert failed_by_infrastructure(summaries((Outcome.QUARANTINED, "planned", 0)))
    assert not failed_by_infrastructure(summaries((Outcome.QUARANTINED, "planned", 0), (Outcome.FAILED, "planned", 3)))


def test_junit_has_a_case_an_episode_and_survives_any_words() -> None:
    rows = [
        row(),
        row(outcome=Outcome.FAILED, reason=HOSTILE),
        row(outcome=Outcome.QUARANTINED, reason="lost"),
        row(outcome=Outcome.CANCELLED, reason="stopped"),
        row(outcome=Outcome.FAILED, bot="random"),
    ]

    suite = ET.fromstring(junit_for(RUN, rows))

    assert [suite.get(n) for n in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "2"]
    failure = suite.find(".//failure")
    assert failure is not None
    assert "<script>" in (failure.get("message") or "")


def test_a_bot_without_a_score_has_no_score_property() -> None:
    suite = ET.fromstring(junit_for(RUN, [row(score=None), row(score=0.0)]))

    names = [[one.get("name") for one in case.iter("property")] for case in suite.iter("testcase")]
    assert names == [["steps", "stall_fraction", "no_effect"], ["score", "steps", "stall_fraction", "no_effect"]]


@given(st.text(), st.floats(0, 1e6), st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e6)), max_size=5))
def test_charts_are_well_formed_whatever_they_show(title: str, value: float, points: list[tuple[float, float]]) -> None:
    title = "".join(c for c in title if c.isprintable())

    for svg in (
        line_chart(title, {"a": points, "b": []}),
        ledger_chart(title, [{"capture": value}], ("capture", "plan")),
        bar_chart(title, {"game": {"planned": value, "random": 0.0}}),
    ):
        ET.fromstring(svg)


def test_the_page_is_self_contained_and_words_from_outside_do_nothing(tmp_path: Path) -> None:
    report = write_report(run_folder(tmp_path))

    page = report.html.read_text("utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert "Rehearsal" in page
    assert json.loads(report.summary.read_text("utf-8"))["rehearsal"] == ["rehearsal-7b"]
    ET.parse(report.junit)


@pytest.mark.parametrize(
    ("losses", "told"), [(0, None), (1, "ended by itself once, was started again"), (2, "ended by itself 2 times")]
)
def test_an_adb_server_that_ended_is_told_with_how_often(tmp_path: Path, losses: int, told: str | None) -> None:
    folder = run_folder(tmp_path)
    lines = [{"at": 1.0, "event": "actors.adb.lost", "error": "failed to unregister fd"}] * losses
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    report = write_report(folder)

    page = report.html.read_text("utf-8")
    assert json.loads(report.summary.read_text("utf-8"))["totals"]["adb_server_losses"] == losses
    assert (told in page) if told else ("Our adb server" not in page)


def test_an_interrupted_episode_gets_its_numbers_from_its_record(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, ended=False)
    steps = folder / "episodes" / "run-P-0" / "steps.jsonl"
    whole = steps.read_text()
    steps.write_text(whole[: int(len(whole) * 0.6)])  # cut in the middle of a line

    (episode,) = read_episodes(folder)

    assert episode["outcome"] == "cancelled"
    assert episode["reason"] == "the run ended before the episode did"
    assert 5 < episode["steps"] < 20
    assert episode["plans"]["completed"] > 0
    assert episode["latency_ms"]["capture"]["p50"] is not None
    write_report(folder)


def test_a_changed_decision_is_found_and_named(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    steps = folder / "episodes" / "run-P-0" / "steps.jsonl"
    assert replay_episode(steps.parent).differences == ()
    lines = steps.read_text().splitlines()
    index = next(n for n, line in enumerate(lines) if '"out":{"command"' in line)
    lines[index] = lines[index].replace('"x":360', '"x":361')
    steps.write_text("\n".join(lines) + "\n")

    (difference,) = replay_episode(steps.parent).differences

    assert "output.command.action.x was 361, is now 360" in difference


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda lines: ["{}", *lines[1:]], "line 1: not a record's header"),
        (lambda lines: [lines[0].replace('"version":1', '"version":99'), *lines[1:]], "record version 99"),
        (lambda lines: [*lines[:3], "garbage", *lines[3:]], "line 4: not a step"),
        (lambda lines: [], "line 1"),
    ],
)
def test_a_broken_record_says_where(tmp_path: Path, spoil: Any, says: str) -> None:
    steps = run_folder(tmp_path) / "episodes" / "run-P-0" / "steps.jsonl"
    steps.write_text("\n".join(spoil(steps.read_text().splitlines())) + "\n")

    with pytest.raises(RecordUnreadable, match=says):
        replay_episode(steps.parent)


def test_lines_that_are_not_whole_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n[2]\n\xff\xfe\n{"a": 3}\n{"a": ')

    assert list(read_lines(path)) == [{"a": 1}, {"a": 3}]
    assert list(read_lines(tmp_path / "none")) == []


def test_the_legend_of_a_chart_stands_above_its_curves() -> None:
    svg = ET.fromstring(line_chart("t", {"capture": [(0, 9.0), (1, 9.0)], "plan": [(0, 1.0), (1, 2.0)]}))

    names = [float(text.get("y") or "nan") for text in svg.iter("text") if text.text in ("capture", "plan")]
    curves = [float(pair.split(",")[1]) for line in svg.iter("polyline") for pair in (line.get("points") or "").split()]
    assert len(names) == 2
    assert max(names) + 3 < min(curves)


def test_a_single_point_is_seen() -> None:
    assert "<circle" in line_chart("t", {"score": [(4.0, 1.0)]})
    assert "<circle" not in line_chart("t", {"score": [(4.0, 1.0), (5.0, 1.0)]})


def test_a_row_of_the_ledger_has_the_number_of_its_action() -> None:
    svg = ET.fromstring(ledger_chart("t", [{"a": 5.0}, {"a": 9.0}], ("a",), ["17", "18"]))

    bars = [float(bar.get("y") or "nan") for bar in svg.iter("rect")]
    labels = {text.text: float(text.get("y") or "nan") for text in svg.iter("text") if text.text in ("17", "18")}
    assert list(labels) == ["17", "18"]
    assert all(bar < at < bar + 9 for bar, at in zip(bars, labels.values(), strict=True))


def test_the_page_numbers_its_actions_and_outlines_its_taps_in_white(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, steps=3)
    write_picture(folder / "frames" / "a.jpg")
    shot = {
        "seq": 1, "at": 6.0, "file": "a.jpg", "width": 9, "height": 16, "taps": [[0.5, 0.5], [0.6, 0.6]],
        "label": "tap 361,540 (planned: plan on frame 4)",
    }  # fmt: skip
    (folder / "episodes" / EPISODE / "display.jsonl").write_text(json.dumps(shot) + "\n")
    settled = {"at": 1.0, "event": "policies.action.settled", "episode": EPISODE, "seq": 417, "capture_seconds": 0.1}
    (folder / "events.jsonl").write_text(json.dumps(settled) + "\n")

    page = write_report(folder).html.read_text("utf-8")

    assert "tap 361,540 (planned: plan on frame 4)</figcaption>" in page
    assert ">417</text>" in page
    for shape in ("ellipse", "polyline"):
        white, red = (page.index(f'stroke="{color}"', page.index(f"<{shape}")) for color in ("#fff", "#ff1744"))
        assert white < red


def write_picture(path: Path) -> None:
    path.parent.mkdir()
    assert cv2.imwrite(str(path), np.zeros((16, 9, 3), np.uint8))


def test_planned_bots_are_compared_with_random_ones_where_both_played() -> None:
    rows = [row(score=9.0), row(score=7.0), row(score=1.0, bot="random", outcome=Outcome.FAILED), row(app="other")]

    (compared,) = compare(rows)

    assert compared["app"] == "game"
    assert compared["planned"] == {"episodes": 2, "succeeded": 2, "mean": 8.0}
    assert compared["random"] == {"episodes": 1, "succeeded": 0, "mean": 1.0}


def test_outputs_encode_the_same_now_and_read_back() -> None:
    policy = EpisodePolicy(EpisodeSettings("win"), EpisodeId("e"))
    output = policy.step(StepInput(0, 1.0, percept(0, 0.9)))

    assert encode_output(output) == json.loads(json.dumps(encode_output(output)))
