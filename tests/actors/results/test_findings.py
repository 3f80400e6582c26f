import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from actors.cli.main import corral
from actors.results.finding_words import FindingKind, FindingState
from actors.results.findings import Sighting, screen_in, sightings_in, stack_key
from actors.results.findings_store import (
    Findings,
    FindingsUnreadable,
    ScannedRun,
    load_findings,
    save_findings,
)
from actors.results.screens import MAX_SCREENS, Screens, coverage_of, distance, screen_hash
from policies.thumbnail import Thumbnail
from tests.kit.run_folder import row, run_folder

JAVA = """E AndroidRuntime: FATAL EXCEPTION: main
E AndroidRuntime: java.lang.IllegalStateException: wave 7 of 12
E AndroidRuntime: \tat dev.corral.Battle.next(Battle.java:120)
E AndroidRuntime: \tat dev.corral.Battle.tick(Battle.java:33)
E AndroidRuntime: \tat android.os.Handler.run(Handler.java:1)
E AndroidRuntime: \tat java.lang.Thread.run(Thread.java:9)"""
SCANNED = ScannedRun("quick", 7, ("battler",))


def sighting(run: str = "r1", episode: str = "e1", key: str = "k", kind: FindingKind = FindingKind.CRASH) -> Sighting:
    return Sighting(kind, "battler", "it broke", key, run, episode, "P0", 3, "text")


def test_a_crash_is_the_same_whatever_its_numbers() -> None:
    cause = "java.lang.IllegalStateException: wave 7 of 12"
    other = JAVA.replace("wave 7 of 12", "wave 9 of 12").replace("Battle.java:120", "Battle.java:121")
    deeper = JAVA.replace("Handler.run", "Handler.post")

    assert stack_key(cause, JAVA) == stack_key(cause.replace("7", "9"), other)
    assert stack_key(cause, JAVA) != stack_key(cause, deeper)
    assert stack_key(cause, JAVA) != stack_key(cause.replace("IllegalState", "NullPointer"), JAVA)
    native = "F DEBUG: #00 pc 0001234 /lib/libgame.so (draw(int)+12)\nF DEBUG: #01 pc 0009 /lib/libc.so (abort+4)"
    assert stack_key("SIGSEGV at 0xdeadbeef", native) == stack_key("SIGSEGV at 0x1234", native.replace("+12", "+40"))


def image(seed: int, *, size: tuple[int, int] = (64, 36)) -> Thumbnail:
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (8, 9, 3), dtype=np.uint8)
    return Thumbnail(np.kron(small, np.ones((size[0] // 8, size[1] // 9, 1), np.uint8)))


@given(arrays(np.uint8, (64, 36, 3)), st.integers(-20, 20))
def test_brightness_moves_a_screen_little(cells: Any, change: int) -> None:
    brighter = np.clip(cells.astype(int) // 2 + 60 + change, 0, 255).astype(np.uint8)
    darker = np.clip(cells.astype(int) // 2 + 60, 0, 255).astype(np.uint8)

    assert distance(screen_hash(Thumbnail(brighter)), screen_hash(Thumbnail(darker))) <= 8


def test_other_layouts_are_other_screens_and_transitions_are_counted() -> None:
    screens = Screens()
    a, b = (screens.place(screen_hash(image(seed))) for seed in (1, 2))
    assert a != b

    seen = coverage_of([[(image(1), "tap"), (None, ""), (image(2), "swipe"), (image(1), "")], [(image(1), "")]])
    assert seen.screens == {a: 3, b: 1}
    assert seen.transitions == {(a, "tap", b): 1, (b, "swipe", a): 1}
    later = coverage_of([[(image(1), "tap"), (image(3), "")]])
    fresh, moves = later.new_since(seen)
    assert (len(fresh), len(moves)) == (1, 1)
    assert later.new_since(later) == ((), ())


def test_screens_beyond_the_bound_are_not_counted_and_that_is_said() -> None:
    a, b, c = (screen_hash(image(seed)) for seed in (1, 2, 3))
    steps = [(image(1), "tap"), (image(3), "tap"), (image(2), "tap"), (image(1), "")]
    whole, bounded = coverage_of([steps]), coverage_of([steps], most=2)

    assert (len(whole.screens), whole.is_whole) == (3, True)
    assert (bounded.screens, bounded.is_whole) == ({a: 2, c: 1}, False)
    assert bounded.transitions == {(a, "tap", c): 1}  # none from or to a screen that has no name
    screens = Screens([a, c], most=2)
    assert (screens.place(a), screens.place(b), screens.known) == (a, None, [a, c])


def dead(run: str, screen: str) -> Sighting:
    title = f"tap 1,1 has no effect on screen {screen}"
    return Sighting(FindingKind.NO_EFFECT, "battler", title, screen, run, "e1", "P0")


def test_screens_of_judged_findings_and_of_the_latest_are_kept() -> None:
    known = [f"{number:016x}" for number in range(MAX_SCREENS + 3)]
    found = Findings().with_run("r1", SCANNED, [dead("r1", known[0]), dead("r1", known[1])])
    judged = next(key for key, one in found.findings.items() if one.title.endswith(known[0]))
    found = found.marked(judged, FindingState.IGNORED).with_run("r2", SCANNED, [dead("r2", known[2])])
    within = found.with_screens(known[:MAX_SCREENS])
    beyond = found.with_screens(known)

    assert (within.screens, within.forgotten_screens) == (tuple(known[:MAX_SCREENS]), 0)
    assert beyond.screens == (*known[:3], *known[6:])
    assert beyond.forgotten_screens == 3
    again = beyond.with_screens([*beyond.screens, "f" * 16])
    assert (len(again.screens), again.forgotten_screens) == (MAX_SCREENS, 4)
    assert again.screens[:3] == tuple(known[:3])


def test_a_screen_is_kept_only_where_something_was_dead(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    quiet = Screens()
    assert [one.kind for one in sightings_in(run, quiet) if one.kind is FindingKind.NO_EFFECT] == []
    assert quiet.known == []
    record = run / "episodes" / "run-P-0" / "steps.jsonl"
    lines = record.read_text().splitlines()
    note = {"event": "policies.action.had_no_effect", "fields": {"then": "retry"}}
    step = json.loads(lines[8])
    step["out"]["notes"] = [note]
    record.write_text("\n".join([*lines[:8], json.dumps(step), *lines[9:]]) + "\n")
    screens = Screens()
    (one,) = [one for one in sightings_in(run, screens) if one.kind is FindingKind.NO_EFFECT]

    assert [f"{screen:016x}" for screen in screens.known] == [screen_in(one.title)]
    assert screen_in("it broke") == ""


def test_half_a_character_of_a_log_breaks_no_file(tmp_path: Path) -> None:
    one = attrs.evolve(sighting(key="k\ud83d"), title="half \ud83d", excerpt="\ud83d")
    save_findings(tmp_path / "findings.json", Findings().with_run("r1", SCANNED, [one]))

    assert load_findings(tmp_path / "findings.json").findings[one.signature].title == "half ?"


def test_sightings_of_runs_are_one_finding_and_a_second_scan_changes_nothing() -> None:
    once = Findings().with_run("r1", SCANNED, [sighting(), sighting(episode="e2")])
    twice = once.with_run("r2", SCANNED, [sighting("r2")])
    (finding,) = twice.findings.values()

    assert (finding.count, finding.first_run, finding.last_run, finding.state) == (3, "r1", "r2", FindingState.NEW)
    assert twice.with_run("r2", SCANNED, [sighting("r2")]) == twice
    gone = twice.with_run("r1", SCANNED, []).with_run("r2", SCANNED, [])
    assert gone.findings == {}


def test_what_was_fixed_and_comes_back_is_new_again() -> None:
    found = Findings().with_run("r1", SCANNED, [sighting()])
    (signature,) = found.findings
    fixed = found.marked(signature, FindingState.FIXED)

    assert fixed.with_run("r1", SCANNED, [sighting()]).findings[signature].state is FindingState.FIXED  # the same run
    back = fixed.with_run("r2", SCANNED, [sighting("r2")]).findings[signature]
    assert (back.state, back.regressed) == (FindingState.NEW, True)
    ignored = found.marked(signature, FindingState.IGNORED).with_run("r2", SCANNED, [sighting("r2")])
    assert ignored.findings[signature].state is FindingState.IGNORED


def test_what_a_rerun_does_not_show_is_flaky() -> None:
    found = Findings().with_run("r1", SCANNED, [sighting()])
    (finding,) = found.findings.values()
    assert not found.is_flaky(finding)
    assert not found.with_run("r2", ScannedRun("quick", 8, ("battler",)), []).is_flaky(finding)  # another game
    assert found.with_run("r2", SCANNED, []).is_flaky(finding)


@given(st.lists(st.tuples(st.sampled_from(["r1", "r2", "r3"]), st.sampled_from("abc")), max_size=20))
def test_the_file_keeps_everything(tmp_path_factory: pytest.TempPathFactory, seen: list[tuple[str, str]]) -> None:
    found = Findings()
    for run in sorted({run for run, _ in seen}):
        found = found.with_run(run, SCANNED, [sighting(run, key=key) for other, key in seen if other == run])
    path = tmp_path_factory.mktemp("store") / "findings.json"
    save_findings(path, found)

    assert load_findings(path) == found


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 99}', '{"findings": 3}', "\x00", "[" * 100_000])
def test_a_file_that_is_none_of_ours_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "findings.json"
    path.write_text(text)

    with pytest.raises(FindingsUnreadable):
        load_findings(path)


def crashed_run(tmp_path: Path) -> Path:
    """A run whose episode crashed once and failed."""
    run = run_folder(tmp_path)
    fault = {"kind": "crash", "process": "p", "cause": "java.lang.X: 7\x1b[31m", "excerpt": JAVA, "at": ""}
    summary = row(outcome="failed", reason="score 3 of 9") | {"faults": [fault], "bad_frames": {"black": 4}}
    (run / "episodes" / "run-P-0" / "episode.json").write_text(json.dumps(summary))
    return run


def test_a_run_says_what_went_wrong(tmp_path: Path) -> None:
    found = list(sightings_in(crashed_run(tmp_path), Screens()))

    assert {one.kind for one in found} == {FindingKind.CRASH, FindingKind.BLACK, FindingKind.MISSED}
    assert all(one.episode == "run-P-0" for one in found)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(corral, ["findings", *arguments])


def test_the_commands_from_a_scan_to_a_repro(tmp_path: Path) -> None:
    run, store = crashed_run(tmp_path), str(tmp_path / "findings.json")

    assert invoke("scan", str(run), "--store", store).exit_code == 0
    listed = json.loads(invoke("list", "--store", store, "--json").output)
    assert {one["kind"] for one in listed} == {"crash", "black", "missed"}
    crash = next(one for one in listed if one["kind"] == "crash")["signature"]
    assert "\x1b" not in invoke("list", "--store", store).output
    shown = invoke("show", crash[:8], "--store", store)
    assert "dev.corral.Battle.next" in shown.output
    assert invoke("mark", crash, "known", "--store", store).exit_code == 0
    assert json.loads(invoke("list", "--state", "known", "--store", store, "--json").output)[0]["signature"] == crash
    assert invoke("show", "nothing", "--store", store).exit_code == 1

    out = tmp_path / "repro"
    assert invoke("repro", crash, "--runs", str(tmp_path), "--out", str(out), "--store", store).exit_code == 0
    replayed = CliRunner().invoke(corral, ["replay", str(out)])
    assert replayed.exit_code == 0, replayed.output
    assert "same decisions" in replayed.output
    assert invoke("repro", crash, "--runs", str(tmp_path), "--out", str(out), "--store", store).exit_code == 2
    assert invoke("coverage", str(run), "--against", str(run)).output.splitlines()[1].startswith("0 screens")
    assert invoke("scan", str(tmp_path), "--store", store).exit_code == 2
