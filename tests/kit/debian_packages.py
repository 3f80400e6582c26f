"""Packages of another Debian than the machine's, unpacked in a cache folder; nothing of the system is written."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"  # signed, so plain HTTP will do
DOWNLOAD_SECONDS = 120.0


class CannotBeHad(Exception):
    """The packages are not to be had on this machine, or not now; the text says why."""


def missing() -> str | None:
    """What this machine lacks for unpacking packages, or None."""
    if not sys.platform.startswith("linux"):
        return "they are for Linux"
    for name in ("apt-get", "dpkg"):
        if shutil.which(name) is None:
            return f"no {name}: they are Debian's"
    return None if KEYRING.exists() else f"no {KEYRING}: install the package debian-archive-keyring"


def unpacked(folder: Path, suite: str, *packages: str) -> Path:
    """The folder that the packages and all that they need are unpacked in; downloads them if that was never done.

    Raises:
        CannotBeHad: this machine has not what it takes, or the download failed.
    """
    if (reason := missing()) is not None:
        raise CannotBeHad(reason)
    root = folder / "root"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not root.exists():
                _download_and_unpack(folder, root, suite, packages)
    except OSError as error:
        raise CannotBeHad(f"{folder} cannot be filled: {error}") from error
    return root


def _download_and_unpack(folder: Path, root: Path, suite: str, packages: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=folder) as made:
        work, fresh = Path(made), Path(made) / "root"
        for name in ("lists/partial", "cache/archives/partial", "root"):
            (work / name).mkdir(parents=True)
        (work / "status").touch()
        (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n")
        config = work / "apt.conf"
        # nothing of the system's apt is written, and neither its hooks nor its lists are read
        config.write_text(
            f'Dir::Etc::main "/dev/null"; Dir::Etc::parts "/dev/null"; Dir::Etc::preferencesparts "/dev/null";\n'
            f'Dir::Etc::sourcelist "{work}/sources.list"; Dir::Etc::sourceparts "/dev/null";\n'
            f'Dir::State "{work}"; Dir::State::lists "{work}/lists"; Dir::State::status "{work}/status";\n'
            f'Dir::Cache "{work}/cache"; Dir::Log "{work}";\n'
            'APT::Sandbox::User ""; APT::Install-Recommends "false"; Acquire::Languages "none";\n'
            'Acquire::http::Timeout "10"; Acquire::Retries "1"; APT::Update::Error-Mode "any";\n' + _ways_out()
        )
        _apt(config, "update")
        _apt(config, "--yes", "--download-only", "install", *packages)
        for package in sorted((work / "cache/archives").glob("*.deb")):
            done = subprocess.run(["dpkg", "-x", package, fresh], capture_output=True, check=False)
            if done.returncode != 0:
                raise CannotBeHad(f"{package.name} cannot be unpacked: {done.stderr.decode()[-300:]}")
        fresh.chmod(0o755)
        fresh.rename(root)


def _ways_out() -> str:
    """The machine's own settings about proxies, and about the dates of mirrors that stand still."""
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    kept = ("Acquire::http::", "Acquire::https::", "Acquire::Check-")
    return "\n".join(line for line in dumped.splitlines() if line.startswith(kept)) + "\n"


def _apt(config: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(
            ["apt-get", "-q", *arguments],
            env={**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C"},
            capture_output=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotBeHad(f"apt-get {arguments[0]} took more than {DOWNLOAD_SECONDS:g} s") from error
    if done.returncode != 0:
        raise CannotBeHad(f"apt-get {' '.join(arguments)}: {done.stderr.decode(errors='replace')[-300:].strip()}")
