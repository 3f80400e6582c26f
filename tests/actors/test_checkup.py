"""What the doctor makes of a host: small hosts, old adbs and missing keys are told with what to do."""

import json
import resource
import stat
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from actors.checkup import Finding, HostFacts, Verdict, judge_adb, judge_extras, judge_foreign_server, judge_host, worst
from actors.checkup_probe import examine, run_examination
from actors.cli.main import corral
from actors.scenario import parse_scenario
from tests.kit.devices import probe_spec, simulated_phones

LARGE = HostFacts((3, 11, 7), 8, 64 << 30, 65536, 65536, 1 << 40, "runs", is_disk_writable=True)


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


def test_a_large_host_is_well() -> None:
    assert worst(judge_host(LARGE, phones=128)) is Verdict.OK


@pytest.mark.parametrize(
    ("changed", "subject", "verdict", "advice"),
    [
        ({"open_files_soft": 1024, "open_files_hard": 4096}, "open files", Verdict.FAILED, "ulimit -n 1152"),
        ({"open_files_soft": 1024, "open_files_hard": 1024}, "open files", Verdict.FAILED, "LimitNOFILE=1152"),
        ({"memory_bytes": 1 << 30}, "memory", Verdict.WARNING, "fewer phones"),
        ({"disk_free_bytes": 1 << 30}, "disk", Verdict.WARNING, "--out"),
        ({"is_disk_writable": False}, "disk", Verdict.FAILED, "--out"),
        ({"python": (3, 10, 1)}, "python", Verdict.WARNING, "3.11"),
        ({"python": (3, 14, 0)}, "python", Verdict.WARNING, "3.13"),
    ],
)
def test_what_a_host_lacks_is_told_with_what_to_do(
    changed: dict[str, object], subject: str, verdict: Verdict, advice: str
) -> None:
    facts = attrs.evolve(LARGE, **changed)  # type: ignore[arg-type]
    finding = by_subject(judge_host(facts, phones=128))[subject]

    assert finding.verdict is verdict
    assert advice in finding.advice


def test_adb_is_judged_by_what_it_says() -> None:
    assert judge_adb("adb", 36, "").verdict is Verdict.OK
    assert judge_adb("adb", 23, "").verdict is Verdict.WARNING
    assert judge_adb("adb", None, "exec format error").verdict is Verdict.FAILED
    assert judge_foreign_server(5037, is_listening=True).verdict is Verdict.WARNING
    assert "corral[ocr]" in judge_extras([("ocr", "texts in rules")])[0].advice


def test_the_doctor_says_it_in_json_and_as_a_table(tmp_path: Path) -> None:
    done = CliRunner().invoke(corral, ["doctor", "--json", "--out", str(tmp_path)])
    findings = [json.loads(line) for line in done.stdout.splitlines()]

    assert {finding["subject"] for finding in findings} >= {"python", "adb", "own adb server", "open files", "disk"}
    assert done.exit_code == 0, done.output
    table = CliRunner().invoke(corral, ["doctor", "--out", str(tmp_path)])
    assert "what to do" in table.stdout


def test_no_adb_and_an_engine_that_is_not_there_are_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADB", str(tmp_path / "adb"))
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        'name = "s"\n[apps.a]\ngoal = "g"\npackage = "p.q"\n'
        '[[phones]]\nkind = "adb"\napp = "a"\naddresses = ["127.0.0.1:20007"]\n'
        '[[engines]]\nid = "e"\nurl = "http://127.0.0.1:20009"\n'
    )
    done = CliRunner().invoke(corral, ["doctor", "--json", str(scenario)])

    assert done.exit_code == 1, done.output
    failed = {row["subject"]: row for row in map(json.loads, done.stdout.splitlines()) if row["verdict"] == "failed"}
    assert set(failed) == {"adb", "engine e"}
    assert "apt-get install adb" in failed["adb"]["advice"]
    assert "20009" in failed["engine e"]["advice"]


def test_an_adb_that_is_none_is_told_and_a_full_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "adb"
    program.write_text("#!/bin/sh\necho this is not adb\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ADB", str(program))
    found = by_subject(run_examination(None, out=tmp_path, phones=1 << 24 if _limit_is_finite() else 1))

    assert found["adb"].verdict is Verdict.FAILED
    assert found["own adb server"].verdict is Verdict.FAILED
    if _limit_is_finite():
        assert found["open files"].verdict is Verdict.FAILED


def _limit_is_finite() -> bool:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] != resource.RLIM_INFINITY


async def test_phones_of_a_scenario_are_asked(tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,):
        scenario = parse_scenario(
            (
                'name = "s"\n[apps.a]\ngoal = "g"\npackage = "p.q"\n'
                f'[[phones]]\nkind = "adb"\napp = "a"\naddresses = ["{phone.address}", "127.0.0.1:20007"]\n'
                '[[engines]]\nid = "e"\n[engines.launch]\nargs = ["--blind"]\n'
            ).encode(),
            "s.toml",
        )
        found = by_subject(await examine(scenario, out=tmp_path, phones=2))

    assert found[f"phone {phone.address}"].verdict is Verdict.OK
    assert found["phone 127.0.0.1:20007"].verdict is Verdict.FAILED
    assert "adb connect" in found["phone 127.0.0.1:20007"].advice
    assert found["engine e"].verdict is Verdict.OK
