"""What is installed on one simulated phone, and the sessions by which more is.

An "apk" may be any bytes. A line `package=NAME` in its first kilobyte names the package, so that tests can install
a bundled app; otherwise the name comes from the content, and the package has nothing to start.
"""

import hashlib
import re
from typing import Literal

import attrs

_NAMED = re.compile(rb"^package=([A-Za-z0-9_.]+)\s*$", re.MULTILINE)
_NAME_WINDOW = 1024

Which = Literal["all", "system", "third_party"]


def package_name_of(apk: bytes) -> str:
    """The package that these bytes install."""
    found = _NAMED.search(apk[:_NAME_WINDOW])
    if found is not None:
        return found.group(1).decode("ascii")
    return "apk.x" + hashlib.sha256(apk).hexdigest()[:12]


@attrs.define
class Package:
    """One installed package."""

    name: str
    splits: dict[str, int]
    """{file name: bytes}; a package that came as one file has one."""
    system: bool = False
    granted: set[str] = attrs.field(factory=set)
    data_cleared: int = 0
    """How often `pm clear` was called."""


@attrs.define
class InstallSession:
    """One `pm install-create`, until it is committed or abandoned."""

    number: int
    splits: dict[str, bytes] = attrs.field(factory=dict)


class InstallError(Exception):
    """`pm` refuses; the text is what it prints after `Failure`."""


@attrs.define
class PackageRegistry:
    """All packages of a phone. A reboot keeps them."""

    _packages: dict[str, Package] = attrs.field(factory=dict, alias="_packages")
    _sessions: dict[int, InstallSession] = attrs.field(factory=dict, alias="_sessions")
    _next_session: int = attrs.field(default=1_000_001, alias="_next_session")

    def preinstall(self, name: str) -> None:
        """Put a package there as the maker of the phone does."""
        self._packages[name] = Package(name=name, splits={"base.apk": 0}, system=True)

    def names(self, which: Which = "all") -> tuple[str, ...]:
        """Installed names in alphabetical order."""
        wanted = {"all": (True, False), "system": (True,), "third_party": (False,)}[which]
        return tuple(sorted(name for name, package in self._packages.items() if package.system in wanted))

    def find(self, name: str) -> Package | None:
        """The package of that name, if it is installed."""
        return self._packages.get(name)

    def install(self, splits: dict[str, bytes]) -> Package:
        """Install files that belong together; an installed package of that name is replaced.

        Raises:
            InstallError: there is no file, an empty one, or files of two packages.
        """
        if not splits or any(not apk for apk in splits.values()):
            raise InstallError("[INSTALL_PARSE_FAILED_NOT_APK]")
        named = {package_name_of(apk) for apk in splits.values() if _NAMED.search(apk[:_NAME_WINDOW])}
        if len(named) > 1:
            raise InstallError(f"[INSTALL_FAILED_INVALID_APK: {' and '.join(sorted(named))} in one session]")
        name = named.pop() if named else package_name_of(next(iter(splits.values())))
        present = self._packages.get(name)
        package = Package(
            name=name,
            splits={file: len(apk) for file, apk in splits.items()},
            system=present.system if present else False,
            granted=present.granted if present else set(),
        )
        self._packages[name] = package
        return package

    def uninstall(self, name: str) -> None:
        """Remove a package.

        Raises:
            InstallError: it is not installed.
        """
        if self._packages.pop(name, None) is None:
            raise InstallError("[DELETE_FAILED_INTERNAL_ERROR]")

    def create_session(self) -> InstallSession:
        """A new session, for files that arrive one by one."""
        session = InstallSession(self._next_session)
        self._next_session += 1
        self._sessions[session.number] = session
        return session

    def session(self, number: int) -> InstallSession:
        """An open session.

        Raises:
            InstallError: there is none of that number.
        """
        try:
            return self._sessions[number]
        except KeyError:
            raise InstallError(f"[java.lang.SecurityException: Caller has no access to session {number}]") from None

    def commit_session(self, number: int) -> Package:
        """Install what a session holds, and end it.

        Raises:
            InstallError: as `install`, or no such session.
        """
        session = self.session(number)
        del self._sessions[number]
        return self.install(session.splits)

    def abandon_session(self, number: int) -> None:
        """End a session without installing.

        Raises:
            InstallError: there is none of that number.
        """
        self.session(number)
        del self._sessions[number]
