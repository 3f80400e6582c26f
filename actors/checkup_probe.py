"""Looks at a host, its adb, phones and engines, for `corral doctor`. Nothing is changed, nothing foreign is ended."""

import importlib.util
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from actors.checkup import (
    Finding,
    HostFacts,
    Verdict,
    judge_adb,
    judge_extras,
    judge_foreign_server,
    judge_host,
    judge_key,
)
from actors.devices.adb.errors import AdbServerUnavailable
from actors.devices.adb.server import AdbServer, find_adb, open_adb_server
from actors.devices.base import DeviceError
from actors.discovery import FoundPhone, identify
from actors.scenario import AdbPhones, Scenario
from inference.client import EngineClient
from inference.config import EngineConfig, LaunchKind
from inference.errors import EngineError
from runtime.ids import PhoneId, slug_for
from runtime.secret import SecretMissing, secret_from_environment

DEFAULT_PORT = 5037
ADB_SECONDS = 10.0
EXTRAS = (("ocr", "rapidocr_onnxruntime", "texts in rules"), ("sql", "asyncmy", "the SQL assistant"))


async def examine(scenario: Scenario | None, *, out: Path, phones: int) -> list[Finding]:
    """Look at everything. Takes some seconds: an adb server of our own is started and stopped.

    Args:
        scenario: Its phones and engines are asked too; None looks at the host alone.
        out: Where run folders shall go.
        phones: How many phones the host shall carry.
    """
    findings = judge_host(_host(out), phones)
    missing = [(extra, use) for extra, module, use in EXTRAS if importlib.util.find_spec(module) is None]
    findings += judge_extras(missing)
    findings.append(_adb_key())
    findings.append(judge_foreign_server(DEFAULT_PORT, _listens(DEFAULT_PORT)))
    findings += await _adb(scenario)
    for engine in () if scenario is None else scenario.engines:
        findings.append(await _engine(engine))
    return findings


def _host(out: Path) -> HostFacts:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = 1 << 30
    folder = next((one for one in (out, *out.absolute().parents) if one.exists()), Path("/"))
    return HostFacts(
        python=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=_available_memory(),
        open_files_soft=unlimited if soft == resource.RLIM_INFINITY else soft,
        open_files_hard=unlimited if hard == resource.RLIM_INFINITY else hard,
        disk_free_bytes=shutil.disk_usage(folder).free,
        disk_folder=str(out),
        is_disk_writable=os.access(folder, os.W_OK | os.X_OK),
    )


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _adb_key() -> Finding:
    path = Path.home() / ".android" / "adbkey"
    return judge_key(os.environ.get("ADB_VENDOR_KEYS"), str(path), path.exists())


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _adb(scenario: Scenario | None) -> list[Finding]:
    try:
        binary = find_adb()
    except AdbServerUnavailable as error:
        return [Finding("adb", Verdict.FAILED, str(error), "apt-get install adb, or pip install adbutils")]
    text = await _adb_says(binary)
    release = re.search(r"Version (\d+)\.", text)
    findings = [judge_adb(str(binary), int(release.group(1)) if release else None, text)]
    wanted = [] if scenario is None else _named(scenario)
    try:
        async with open_adb_server() as server:
            findings.append(Finding("own adb server", Verdict.OK, f"starts, on port {server.client.port}"))
            findings += await _phones(server, wanted)
    except DeviceError as error:
        findings.append(Finding("own adb server", Verdict.FAILED, str(error), "look at what adb says, and try again"))
    return findings


async def _adb_says(binary: Path) -> str:
    with trio.move_on_after(ADB_SECONDS):
        try:
            done = await trio.run_process([str(binary), "version"], capture_stdout=True, stderr=subprocess.STDOUT)
        except (OSError, subprocess.CalledProcessError) as error:
            return str(error)
        return done.stdout.decode("utf-8", "replace").strip()
    return f"no answer within {ADB_SECONDS:g} s"


def _named(scenario: Scenario) -> list[FoundPhone]:
    return [
        FoundPhone(PhoneId(slug_for(address)), address, group.app, group.bot)
        for group in scenario.phones
        if isinstance(group, AdbPhones)
        for address in group.addresses
    ]


async def _phones(server: AdbServer, wanted: Sequence[FoundPhone]) -> list[Finding]:
    found = await identify(lambda: server.client, wanted)
    return [
        Finding(f"phone {one.address}", Verdict.OK, one.phone + _doubled(one))
        if one.error is None
        else Finding(f"phone {one.address}", Verdict.FAILED, one.error, _advice(one.error))
        for one in found
    ]


def _doubled(found: FoundPhone) -> str:
    return f", the same as {', '.join(found.aliases)}: name it once" if found.aliases else ""


def _advice(error: str) -> str:
    if "unauthorized" in error:
        return "allow this computer on the phone's screen, or set $ADB_VENDOR_KEYS to a key that it knows"
    return "is it on, is the address right, and does `adb connect` reach it from here?"


async def _engine(config: EngineConfig) -> Finding:
    subject = f"engine {config.id}"
    if config.launch is not None:
        program = "" if config.launch.kind is LaunchKind.REHEARSAL else next(iter(config.launch.args), "")
        if program and shutil.which(program) is None:
            found = f"{program} is no program that can be run"
            return Finding(subject, Verdict.FAILED, found, "install it on this host")
        return Finding(subject, Verdict.OK, "is started with the run")
    assert config.url is not None
    try:
        key = None if config.api_key_env is None else secret_from_environment(config.api_key_env)
    except SecretMissing as error:
        return Finding(subject, Verdict.FAILED, str(error), "set it before corral is started")
    client = EngineClient(config, config.url, api_key=key)
    try:
        await client.probe()
    except EngineError as error:
        return Finding(subject, Verdict.FAILED, str(error), f"is it started, and does {config.url} reach it from here?")
    finally:
        with trio.CancelScope(shield=True):
            await client.aclose()
    return Finding(subject, Verdict.OK, f"answers at {config.url}")


def run_examination(scenario: Scenario | None, *, out: Path, phones: int) -> list[Finding]:
    """As `examine`, for a program without an event loop."""
    return trio.run(partial(examine, scenario, out=out, phones=phones))
