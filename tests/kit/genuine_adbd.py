"""A genuine `adbd`, Debian's, made a phone by small scripts: what the simulated phone is held against.

It gives a shell to whoever reaches it, so it is fenced: it runs as `nobody`, and a library that is loaded before it
binds it to 127.0.0.1 and refuses every family that reaches further. That the library is loaded is proved before the
start, and that nothing but loopback is listened on after it. Where one of these cannot be, the tests are skipped.
"""

import os
import pwd
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import attrs
import cv2
import numpy as np
import pytest
import trio

from actors.rehearsal.apps.base import Canvas
from runtime.lifeline import die_with_parent
from tests.kit.debian_packages import CannotBeHad, unpacked
from tests.kit.ports import free_port

ACCOUNT = "nobody"
START_SECONDS = 20.0
SERIAL, MODEL, ANDROID = "GENUINE0", "Genuine adbd", "14"
RGBA_8888 = 1

FENCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What would listen on all addresses listens on 127.0.0.1 alone; vsock and whatever else reaches further is refused. */
int socket(int domain, int type, int protocol) {
  static int (*real)(int, int, int);
  if (!real) real = dlsym(RTLD_NEXT, "socket");
  if (domain == AF_INET6) domain = AF_INET;
  if (domain != AF_UNIX && domain != AF_INET) { errno = EAFNOSUPPORT; return -1; }
  return real(domain, type, protocol);
}

int bind(int fd, const struct sockaddr *address, socklen_t length) {
  static int (*real)(int, const struct sockaddr *, socklen_t);
  if (!real) real = dlsym(RTLD_NEXT, "bind");
  if (address->sa_family == AF_UNIX) return real(fd, address, length);
  const char *port = getenv("FENCE_PORT");
  if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) || !port) { errno = EACCES; return -1; }
  struct sockaddr_in local;
  memset(&local, 0, sizeof local);
  local.sin_family = AF_INET;
  local.sin_port = htons((unsigned short)atoi(port));
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return real(fd, (struct sockaddr *)&local, sizeof local);
}
"""

PROGRAMS = {
    "getprop": f"""
case "$1" in
  ro.serialno) echo {SERIAL} ;;
  ro.product.model) echo "{MODEL}" ;;
  ro.build.version.release) echo {ANDROID} ;;
  *) echo ;;
esac""",
    "dumpsys": """
echo "  Display: mDisplayId=0"
echo "    init=@WIDTHx@HEIGHT 320dpi base=@WIDTHx@HEIGHT 320dpi cur=@WIDTHx@HEIGHT app=@WIDTHx@HEIGHT"
echo "    DisplayFrames w=@WIDTH h=@HEIGHT r=0" """,
    "screencap": """
if [ "$1" = -p ]; then exec cat "@FOLDER/screen.png"; else exec cat "@FOLDER/screen.raw"; fi""",
    "input": """
echo "$*" >> "@FOLDER/inputs" """,
}


@attrs.define(eq=False)
class GenuinePhone:
    """A running `adbd`, made by `genuine_phone`."""

    root: Path
    folder: Path
    fence: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        """What to connect to."""
        return f"127.0.0.1:{self.port}"

    def inputs(self) -> list[str]:
        """What `input` was called with."""
        path = self.folder / "inputs"
        return path.read_text().splitlines() if path.exists() else []

    async def start(self) -> None:
        """Start it, and return once it listens; fails the test where it listens on anything but loopback."""
        self.process = self._spawned()
        with trio.fail_after(START_SECONDS):
            while not (listeners := _listeners(self.process.pid)):
                assert self.process.poll() is None, f"adbd ended with {self.process.returncode}"
                await trio.sleep(0.02)
        if listeners != [("tcp", f"0100007F:{self.port:04X}")]:
            await self.stop()
            pytest.fail(f"adbd listens where it must not, and was ended: {listeners}")

    def _spawned(self) -> "subprocess.Popen[bytes]":
        account = pwd.getpwnam(ACCOUNT)
        return subprocess.Popen(
            _command(self.root, self.fence),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "FENCE_PORT": str(self.port)},
            cwd=self.folder,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            preexec_fn=die_with_parent,  # noqa: PLW1509  # a killed test run leaves no shell behind
        )

    async def stop(self) -> None:
        """End it; returns when it has ended."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            await trio.to_thread.run_sync(process.wait)


@asynccontextmanager
async def genuine_phone(canvas: Canvas) -> AsyncIterator[GenuinePhone]:
    """A phone that shows that picture (RGB) for ever. Skips the test where it cannot be had."""
    root, fence = _had()
    folder = Path(tempfile.mkdtemp(prefix="corral-adbd-"))
    phone = GenuinePhone(root, folder, fence, free_port(2500))
    try:
        _furnish(folder, canvas)
        await phone.start()
        yield phone
    finally:
        with trio.CancelScope(shield=True):  # it is killed, which takes no time
            await phone.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _had() -> tuple[Path, Path]:
    found = _installed_once()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def _installed_once() -> tuple[Path, Path] | str:
    """The unpacked packages and the fence, or why they cannot be had; asked once a test process."""
    lacking = None
    if os.geteuid() != 0:
        lacking = "it gives a shell to whoever connects, and only root can run it under another account"
    elif shutil.which("cc") is None:
        lacking = "no cc: it cannot be fenced in"
    if lacking is not None:
        return f"a genuine adbd cannot be had: {lacking}"
    try:
        folder = Path("/var/cache/corral-tests/adbd")  # root's home is closed to the account
        root = unpacked(folder, "trixie", "adbd")
        fence = folder / "fence.so"
        _build(fence)
        _prove_fenced(root, fence)
    except (CannotBeHad, OSError, KeyError) as error:
        return f"a genuine adbd cannot be had: {error}"
    return root, fence


def _build(fence: Path) -> None:
    with tempfile.TemporaryDirectory(dir=fence.parent) as made:
        source, fresh = Path(made) / "fence.c", Path(made) / "fence.so"
        source.write_text(FENCE)
        done = subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", fresh, source, "-ldl"], capture_output=True, check=False
        )
        if done.returncode != 0:
            raise CannotBeHad(f"cc: {done.stderr.decode(errors='replace')[-300:]}")
        fresh.chmod(0o755)
        fresh.rename(fence)  # other test processes may be using the old one


def _prove_fenced(root: Path, fence: Path) -> None:
    """A loader that cannot load the fence would only warn, and run `adbd` without it."""
    done = subprocess.run([*_command(root, fence, "--list")], capture_output=True, check=False)
    if str(fence).encode() not in done.stdout or b"cannot be preloaded" in done.stderr:
        raise CannotBeHad(f"the fence is not loaded: {done.stderr.decode(errors='replace')[-300:]}")


def _command(root: Path, fence: Path, *options: str) -> list[str]:
    loaders = sorted(root.glob("usr/lib/*/ld-linux-*.so.*"))
    program = root / "usr/lib/android-sdk/platform-tools/adbd"
    if not loaders or not program.exists():
        raise CannotBeHad(f"{root} holds no loader or no adbd: Debian has changed; remove the folder to try again")
    loader = loaders[0]
    libraries = f"{loader.parent}:{loader.parent / 'android'}"
    return [str(loader), *options, "--preload", str(fence), "--library-path", libraries, str(program)]


def _furnish(folder: Path, canvas: Canvas) -> None:
    height, width = canvas.shape[:2]
    (folder / "bin").mkdir()
    for name, text in PROGRAMS.items():
        script = folder / "bin" / name
        body = text.replace("@WIDTH", str(width)).replace("@HEIGHT", str(height)).replace("@FOLDER", str(folder))
        script.write_text(f"#!/bin/sh{body}\n")
        script.chmod(0o755)
    rgba = np.dstack([canvas, np.full((height, width), 255, np.uint8)])
    (folder / "screen.raw").write_bytes(struct.pack("<IIII", width, height, RGBA_8888, 0) + rgba.tobytes())
    ok, png = cv2.imencode(".png", np.ascontiguousarray(canvas[..., ::-1]))
    assert ok
    (folder / "screen.png").write_bytes(png.tobytes())
    account = pwd.getpwnam(ACCOUNT)
    os.chown(folder, account.pw_uid, account.pw_gid)


def _listeners(pid: int) -> list[tuple[str, str]]:
    """(table, local address) of every socket that a process listens on."""
    held: set[str] = set()
    with suppress(FileNotFoundError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                held.add(str(link.readlink()))
    found = []
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in held:
                    found.append((table, fields[1]))
    return found


class EchoSocket:
    """An abstract Unix socket of this machine that echoes: what a program on the phone would listen on."""

    def __init__(self, name: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{name}")
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    while data := connection.recv(65536):
                        connection.sendall(data)

    def close(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
