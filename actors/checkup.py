"""What `corral doctor` thinks of a host: findings and advice from what was measured. Pure; `checkup_probe` measures."""

from collections.abc import Sequence
from enum import StrEnum

import attrs

DESCRIPTORS_PER_PHONE = 8  # streams to the adb server of a capture, an input and a shell, a log, forwards of scrcpy
DESCRIPTORS_BASE = 128
MEMORY_PER_PHONE = 40 << 20  # a decoded frame, its successor, pictures for prompts and the record's queue, at 1080x2400
MEMORY_BASE = 512 << 20
DISK_PER_PHONE_HOUR = 120 << 20  # records and pictures of a phone at a step a second
OLDEST_ADB = 29  # what Debian has; older ones lack shell,v2 for many phones
TESTED_ADB = (29, 36)


class Verdict(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    """It works, with less than it could."""
    FAILED = "failed"
    """Something will not work."""


@attrs.frozen
class Finding:
    """One thing that was looked at."""

    subject: str
    verdict: Verdict
    found: str
    advice: str = ""
    """What to do; empty where nothing is to be done."""


@attrs.frozen
class HostFacts:
    """What a host was found to be."""

    python: tuple[int, int, int]
    cpus: int
    memory_bytes: int
    open_files_soft: int
    open_files_hard: int
    disk_free_bytes: int
    disk_folder: str
    is_disk_writable: bool


def judge_host(facts: HostFacts, phones: int) -> list[Finding]:
    """Is the host large enough for so many phones?"""
    version = ".".join(map(str, facts.python))
    python_ok = (3, 11) <= facts.python[:2] <= (3, 13)
    findings = [
        Finding("python", Verdict.OK, version)
        if python_ok
        else Finding("python", Verdict.WARNING, version, "3.11 to 3.13 are tested: use one of these"),
    ]
    needed = DESCRIPTORS_BASE + DESCRIPTORS_PER_PHONE * phones
    found = f"{facts.open_files_soft} (up to {facts.open_files_hard}), {phones} phones need {needed}"
    if facts.open_files_soft >= needed:
        findings.append(Finding("open files", Verdict.OK, found))
    elif facts.open_files_hard >= needed:
        findings.append(Finding("open files", Verdict.FAILED, found, f"run `ulimit -n {needed}` before corral"))
    else:
        advice = f"raise the hard limit: `LimitNOFILE={needed}` of the systemd unit, or nofile in limits.conf"
        findings.append(Finding("open files", Verdict.FAILED, found, advice))
    wanted = MEMORY_BASE + MEMORY_PER_PHONE * phones
    found = f"{_gib(facts.memory_bytes)} available, about {_gib(wanted)} wanted"
    findings.append(
        Finding("memory", Verdict.OK, found)
        if facts.memory_bytes >= wanted
        else Finding("memory", Verdict.WARNING, found, "use fewer phones, or a smaller max_side of the model profile")
    )
    findings.append(Finding("processors", Verdict.OK, str(facts.cpus)))
    found = f"{_gib(facts.disk_free_bytes)} free in {facts.disk_folder}"
    hour = DISK_PER_PHONE_HOUR * phones
    if not facts.is_disk_writable:
        findings.append(
            Finding("disk", Verdict.FAILED, f"{facts.disk_folder} cannot be written", "name another with --out")
        )
    elif facts.disk_free_bytes < hour:
        advice = f"an hour of {phones} phones takes about {_gib(hour)}: make room, or name another disk with --out"
        findings.append(Finding("disk", Verdict.WARNING, found, advice))
    else:
        findings.append(Finding("disk", Verdict.OK, found))
    return findings


def judge_adb(binary: str, release: int | None, text: str) -> Finding:
    """Is this adb one that phones can be driven with?

    Args:
        binary: Its path.
        release: Major version of the platform tools, 29 or 36; None where it did not say.
        text: What it said.
    """
    if release is None:
        advice = "install adb (apt-get install adb) or the Python package adbutils, or set $ADB"
        return Finding("adb", Verdict.FAILED, f"{binary} says: {text[:200]}", advice)
    found = f"{binary}, version {release}"
    if release < OLDEST_ADB:
        return Finding("adb", Verdict.WARNING, found, f"versions {TESTED_ADB[0]} and {TESTED_ADB[1]} are tested")
    return Finding("adb", Verdict.OK, found)


def judge_foreign_server(port: int, is_listening: bool) -> Finding:
    """Another adb server on the usual port: it is left alone, but it keeps phones on USB to itself."""
    if not is_listening:
        return Finding("other adb server", Verdict.OK, f"none on port {port}")
    advice = "phones on USB belong to it: end it (`adb kill-server`) if corral shall drive them"
    return Finding("other adb server", Verdict.WARNING, f"one on port {port}, which corral leaves alone", advice)


def judge_key(variable: str | None, path: str, exists: bool) -> Finding:
    """Will phones that were authorised before know us?"""
    if variable:
        return Finding("adb key", Verdict.OK, f"$ADB_VENDOR_KEYS is {variable}")
    if exists:
        return Finding("adb key", Verdict.OK, path)
    advice = "a new one is made at the first start, and every phone that asks must allow it; or set $ADB_VENDOR_KEYS"
    return Finding("adb key", Verdict.WARNING, f"no {path}", advice)


def judge_extras(missing: Sequence[tuple[str, str]]) -> list[Finding]:
    """What is not installed: (extra, what it is for)."""
    if not missing:
        return [Finding("extras", Verdict.OK, "all are installed")]
    return [
        Finding("extras", Verdict.WARNING, f"no {extra}", f"for {use}: pip install 'corral[{extra}]'")
        for extra, use in missing
    ]


def worst(findings: Sequence[Finding]) -> Verdict:
    """The most serious verdict of all."""
    order = list(Verdict)
    return max((finding.verdict for finding in findings), key=order.index, default=Verdict.OK)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
