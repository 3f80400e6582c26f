"""Simulated phones as a process of their own, so that drawing games costs the fleet's own process nothing."""

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import attrs

from actors.discovery import FoundPhone
from actors.rehearsal.phone.faults import encode_faults
from actors.rehearsal.phone.scrcpy_wire import VERSION_MARK
from actors.scenario import SimulatedPhones
from runtime.ids import PhoneId
from runtime.process import ProcessPlan, ReadyLine

FIRST_PORT = 16000  # above 5585, the last that adb scans by itself
LAST_PORT = 32000  # below the kernel's ephemeral range
MAX_RUN = 1000  # phones of one group
START_SECONDS = 30.0
STOP_GRACE_SECONDS = 3.0


SCRCPY_VERSION = "4.0"  # of the server that simulated phones play when it is not said otherwise


class NoFreePorts(Exception):
    """No run of free ports is long enough for the phones."""


def free_ports(count: int, *, start: int = FIRST_PORT) -> int:
    """The first of `count` ports in a row on 127.0.0.1 that nobody listens on.

    Raises:
        NoFreePorts: there is no such run below the ephemeral range.
    """
    base = start
    while base + count <= LAST_PORT:
        taken = next((port for port in range(base, base + count) if not _is_free(port)), None)
        if taken is None:
            return base
        base = taken + 1
    raise NoFreePorts(f"no {count} free ports in a row between {start} and {LAST_PORT}")


class PortPicker:
    """Hands out runs of free ports, from a place that differs between processes.

    Between looking and listening somebody else may take a port, another fleet above all: whoever fails to listen asks
    for other ports.
    """

    def __init__(self, process_id: int) -> None:
        self._next = FIRST_PORT + process_id * 61 % (LAST_PORT - FIRST_PORT - MAX_RUN)

    def pick(self, count: int) -> int:
        """The first of `count` free ports in a row; no two calls give the same. Raises `NoFreePorts`."""
        try:
            base = free_ports(count, start=self._next)
        except NoFreePorts:
            base = free_ports(count)
        self._next = base + count
        return base


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@attrs.define
class SimulatedGroup:
    """One group of a scenario, and where its phones are once they listen. A restart gives the same addresses."""

    config: SimulatedPhones
    seed: int
    first_number: int
    name: str
    ports: PortPicker
    base_port: int = 0
    extra: tuple[str, ...] = ()
    """More words for `corral phones simulate`."""
    phones: list[FoundPhone] = attrs.field(factory=list)

    def process_plan(self, log_dir: Path) -> ProcessPlan:
        """How to run the group's process; it is ready when every phone has said where it listens.

        Until it has been ready once, each plan has other ports.
        """
        if not self.phones:
            self.base_port = self.ports.pick(self.config.count)
        command = [sys.executable, "-m", "actors.cli.main", "phones", "simulate", "--json"]
        command += ["--count", str(self.config.count), "--app", self.config.app, "--seed", str(self.seed)]
        command += ["--size", self.config.size, "--base-port", str(self.base_port)]
        command += ["--first-number", str(self.first_number), *self.extra]
        if self.config.second_size is not None:
            command += ["--second-size", self.config.second_size]
        if self.config.faults:
            plan = log_dir / f"{self.name}.faults.toml"
            plan.write_bytes(encode_faults(self.config.faults))
            command += ["--faults", str(plan)]
        return ProcessPlan(
            name=self.name,
            argv=tuple(command),
            log_path=log_dir / f"{self.name}.log",
            ready=ReadyLine(self._line_reader()),
            start_seconds=START_SECONDS,
            stop_grace_seconds=STOP_GRACE_SECONDS,
        )

    def _line_reader(self) -> Callable[[str], str | None]:
        found: list[FoundPhone] = []

        def read(line: str) -> str | None:
            phone = parse_phone_line(line)
            if phone is None:
                return None
            found.append(attrs.evolve(phone, bot=self.config.bot, capture=self.config.capture))
            if len(found) < self.config.count:
                return None
            # a second address is found as one of a scenario's is: as a phone, until it says who it is
            doubles = [attrs.evolve(phone, address=alias, aliases=()) for phone in found for alias in phone.aliases]
            self.phones = [*(attrs.evolve(phone, aliases=()) for phone in found), *doubles]
            return found[0].address

        return read


def stand_in_server(folder: Path) -> Path:
    """A file that a simulated phone runs as its scrcpy server; a real phone would refuse it.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / f"scrcpy-server-v{SCRCPY_VERSION}"
    if not path.exists():
        path.write_bytes(VERSION_MARK + f"{SCRCPY_VERSION}\n".encode())
    return path


def parse_phone_line(line: str) -> FoundPhone | None:
    """One line of `corral phones simulate --json`; None for any other line."""
    try:
        said = json.loads(line)
        return FoundPhone(
            PhoneId(said["serial"]),
            said["address"],
            said["app"],
            aliases=tuple(said.get("aliases", ())),
            seed=said["seed"],
        )
    except (ValueError, KeyError, TypeError):
        return None
