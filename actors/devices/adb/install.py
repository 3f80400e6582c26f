"""Install a game that comes as one APK or as a set of split APKs, all or nothing."""

import re
from collections.abc import Sequence
from pathlib import Path

import trio

from actors.devices.adb.client import AdbClient
from actors.devices.adb.errors import TransferFailed
from actors.devices.adb.files import push_file
from actors.devices.adb.shell import run_shell
from actors.devices.base import DeviceError

INSTALL_SECONDS = 120.0
CLEAN_UP_SECONDS = 5.0
REMOTE_FOLDER = "/data/local/tmp"
_SESSION = re.compile(r"\[(\d+)\]")


async def install_apks(
    client: AdbClient,
    serial: str,
    apks: Sequence[Path],
    *,
    framed: bool,
    timeout_seconds: float = INSTALL_SECONDS,
) -> None:
    """Install files that belong to one package, replacing an older install of it.

    Args:
        client: the adb server.
        serial: the phone.
        apks: the base APK and its splits.
        framed: the phone has `shell_v2`.
        timeout_seconds: limit of each transfer and of the commit.

    Raises:
        TransferFailed: the phone's package manager refused; the text is its reason.
        DeviceLost: as always.
        OSError: a file cannot be read.
    """
    if not apks:
        raise ValueError("there is no APK to install")

    async def pm(arguments: str) -> str:
        result = await run_shell(client, serial, f"pm {arguments}", timeout_seconds=timeout_seconds, framed=framed)
        text = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
        if "Success" not in text:  # phones without shell_v2 have no exit code
            raise TransferFailed(f"pm {arguments.split(maxsplit=1)[0]}: {text or 'no answer'}", phone=serial)
        return text

    created = await pm("install-create -r")
    found = _SESSION.search(created)
    if found is None:
        raise TransferFailed(f"pm install-create gave no session: {created}", phone=serial)
    session = found.group(1)
    committed = False
    pushed: list[str] = []
    try:
        for number, apk in enumerate(apks):
            remote = f"{REMOTE_FOLDER}/corral-{session}-{number}.apk"
            pushed.append(remote)
            size = await push_file(client, serial, apk, remote, timeout_seconds=timeout_seconds)
            await pm(f"install-write -S {size} {session} {number}.apk {remote}")
        await pm(f"install-commit {session}")
        committed = True
    finally:
        line = f"rm -f {' '.join(pushed)}"
        if not committed:
            line += f"; pm install-abandon {session}"
        with trio.CancelScope(shield=True):
            try:
                await run_shell(client, serial, line, timeout_seconds=CLEAN_UP_SECONDS, framed=framed)
            except DeviceError:
                if committed:
                    raise
                # the error that brought us here says more than a second one about what was left behind
