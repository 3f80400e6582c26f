"""Groups of simulated phones: ports that nobody has, others after a clash, and the same ones after a restart."""

import itertools
import socket
from pathlib import Path

import pytest

from actors.scenario import SimulatedPhones
from actors.simulated import (
    FIRST_PORT,
    LAST_PORT,
    NoFreePorts,
    PortPicker,
    SimulatedGroup,
    free_ports,
    parse_phone_line,
)
from runtime.process import ProcessError, open_process


def taken(port: int) -> socket.socket:
    held = socket.socket()
    held.bind(("127.0.0.1", port))
    held.listen()
    return held


def test_runs_of_free_ports_go_round_taken_ones() -> None:
    base = free_ports(5, start=20000)
    with taken(base + 2):
        assert free_ports(5, start=base) == base + 3
    with pytest.raises(NoFreePorts):
        free_ports(5, start=LAST_PORT - 3)


def test_a_picker_gives_no_port_twice_and_starts_elsewhere_in_each_process() -> None:
    picker = PortPicker(4242)
    bases = [picker.pick(10) for _ in range(5)]

    assert all(later >= earlier + 10 for earlier, later in itertools.pairwise(bases))
    assert FIRST_PORT <= bases[0] < LAST_PORT
    assert PortPicker(4243).pick(10) != bases[0]


async def test_after_a_clash_other_ports_are_tried_and_after_a_restart_the_same(tmp_path: Path) -> None:
    group = SimulatedGroup(SimulatedPhones("merge", 2, size="180x320"), 1, 5, "phones-0", PortPicker(77))

    plan = group.process_plan(tmp_path)
    with taken(group.base_port + 1), pytest.raises(ProcessError):
        async with open_process(plan):
            pytest.fail("somebody else has the second port")
    first = group.base_port
    async with open_process(group.process_plan(tmp_path)):
        addresses = [phone.address for phone in group.phones]
    async with open_process(group.process_plan(tmp_path)):
        again = [phone.address for phone in group.phones]

    assert group.base_port != first
    assert addresses == again == [f"127.0.0.1:{group.base_port + n}" for n in range(2)]
    assert [phone.phone for phone in group.phones] == ["CORRAL0005", "CORRAL0006"]


@pytest.mark.parametrize("line", ["", "hello", "{}", '{"serial": 1}', "[1]"])
def test_other_lines_are_no_phones(line: str) -> None:
    assert parse_phone_line(line) is None
