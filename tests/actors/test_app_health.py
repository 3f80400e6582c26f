"""Crashes and ANRs are found in the log however it arrives, with what was logged of them, and only the app's own."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.app_health import MAX_EXCERPT_CHARACTERS, MAX_FAULTS, FaultKind, FaultReader, ForegroundWatch, foreground_in
from actors.logcat import LogcatLine, parse_logcat

SAMPLES = Path(__file__).parent / "fixtures" / "logcat"
PACKAGE = "dev.corral.game"
EXPECTED = {
    "java": (FaultKind.CRASH, "java.lang.NullPointerException: receipt == null", "Receipt.java:17"),
    "native": (
        FaultKind.NATIVE_CRASH,
        "Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x18 in tid 4711 (UnityMain),"
        " pid 4690 (ev.corral.game)",
        "lib/arm64/libgame.so",
    ),
    "anr": (
        FaultKind.ANR,
        "Input dispatching timed out (dev.corral.game/.MainActivity is not responding. Waited 5005ms for MotionEvent)",
        "97% 4690/dev.corral.game",
    ),
}


def sample(name: str) -> list[LogcatLine]:
    return parse_logcat((SAMPLES / f"{name}.txt").read_bytes())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_fault_is_read_with_its_cause_and_its_lines(name: str) -> None:
    reader = FaultReader(PACKAGE)

    (fault,) = reader.feed(sample(name))

    kind, cause, in_excerpt = EXPECTED[name]
    assert (fault.kind, fault.process, fault.cause) == (kind, PACKAGE, cause)
    assert in_excerpt in fault.excerpt
    assert "Process dev.corral" not in fault.excerpt, "lines of others stand between"
    assert fault.at == sample(name)[{"java": 2, "native": 0, "anr": 1}[name]].at
    assert reader.count == 1
    assert reader.faults() == (fault,)


@given(cuts=st.lists(st.integers(0, 14), max_size=6), name=st.sampled_from(sorted(EXPECTED)))
def test_a_log_that_comes_in_pieces_says_the_same(cuts: list[int], name: str) -> None:
    lines = sample(name)
    whole, pieces = FaultReader(PACKAGE), FaultReader(PACKAGE)
    whole.feed(lines)
    edges = [0, *sorted(min(cut, len(lines)) for cut in cuts), len(lines)]
    told = [f for low, high in itertools.pairwise(edges) if low < high for f in pieces.feed(lines[low:high])]
    told += pieces.feed([])

    assert len(told) == pieces.count == whole.count == 1
    assert (told[0].kind, told[0].process in {PACKAGE, ""}) == (EXPECTED[name][0], True)


@pytest.mark.parametrize("name", EXPECTED)
def test_another_apps_fault_is_not_the_apps(name: str) -> None:
    reader = FaultReader("dev.corral.gam")

    assert reader.feed(sample(name)) == []
    assert (reader.count, reader.others) == (0, 1)


def test_a_process_of_the_app_counts_and_an_unnamed_one_too() -> None:
    lines = [
        LogcatLine("1.0", 7, "E", "AndroidRuntime", "FATAL EXCEPTION: main"),
        LogcatLine("1.0", 7, "E", "AndroidRuntime", f"Process: {PACKAGE}:push, PID: 7"),
        LogcatLine("2.0", 8, "E", "AndroidRuntime", "FATAL EXCEPTION: main"),
    ]
    reader = FaultReader(PACKAGE)

    assert [fault.process for fault in reader.feed(lines)] == [f"{PACKAGE}:push"]
    assert [fault.process for fault in reader.feed([])] == [""]
    assert reader.count == 2


def test_what_an_app_prints_about_a_fatal_exception_is_no_crash() -> None:
    line = LogcatLine("1.0", 7, "I", "game", "FATAL EXCEPTION handler installed >>> x <<<")

    assert FaultReader(PACKAGE).feed([line]) == []


def test_an_app_that_crashes_in_a_circle_fills_nothing() -> None:
    reader = FaultReader(PACKAGE)
    for number in range(200):
        head = LogcatLine(f"{number}.0", number, "E", "AndroidRuntime", "FATAL EXCEPTION: main")
        process = LogcatLine(f"{number}.0", number, "E", "AndroidRuntime", f"Process: {PACKAGE}, PID: {number}")
        stack = [LogcatLine(f"{number}.0", number, "E", "AndroidRuntime", "\tat " + "x" * 4000)] * 500
        reader.feed([head, process, *stack])

    assert reader.count == 200
    assert len(reader.faults()) == MAX_FAULTS
    assert all(len(fault.excerpt) <= MAX_EXCERPT_CHARACTERS for fault in reader.faults())


def test_what_is_in_front_is_read_from_the_window_dump() -> None:
    assert foreground_in("  mCurrentFocus=Window{1f0a2b3 u0 dev.corral.game/dev.corral.game.Main}") == (
        "dev.corral.game/dev.corral.game.Main"
    )
    assert foreground_in("  mCurrentFocus=null") is None
    assert foreground_in("nothing of the kind") is None


def test_only_a_long_absence_is_a_fault_and_only_once_each_time() -> None:
    watch = ForegroundWatch(PACKAGE, away_seconds=10.0)
    inside, outside = f"{PACKAGE}/.Main", "com.android.settings/.Settings"

    assert watch.see(outside, 0.0) is None
    assert watch.see(inside, 9.0) is None
    assert watch.see(outside, 20.0) is None
    assert watch.see(None, 25.0) is None
    fault = watch.see(outside, 30.0)
    assert fault is not None
    assert (fault.kind, fault.cause) == (FaultKind.AWAY, "com.android.settings/.Settings was in front for 10 s")
    assert watch.see(outside, 60.0) is None
    assert watch.see(inside, 61.0) is None
    assert watch.see(outside, 62.0) is None
    assert watch.see(outside, 72.0) is not None
