import attrs
import pytest

from inference.gpu_state import (
    RECOVER_SECONDS,
    SLOW_SECONDS,
    GpuState,
    Watched,
    Xid,
    fitness_for,
    parse_gpus,
    parse_xids,
)
from inference.topology import TopologyError
from tests.kit.recorded import recorded

COOL = GpuState(0, "NVIDIA GeForce RTX 5090", "00000000:01:00.0", 32607)
HOT = attrs.evolve(COOL, throttles=frozenset({"hw_thermal_slowdown"}), temperature_c=92.0)


def test_eight_cards() -> None:
    found = parse_gpus(recorded("smi-8x5090.xml"))

    assert [state.index for state in found] == list(range(8))
    assert found[6] == GpuState(
        6, "NVIDIA GeForce RTX 5090", "00000000:C1:00.0", 32607, 2, utilization_percent=0.0, temperature_c=31.0,
        power_watts=14.21,
    )  # fmt: skip


def test_a_hot_card() -> None:
    (found,) = parse_gpus(recorded("smi-hot-5090.xml"))

    assert found.throttles == {"hw_slowdown", "hw_thermal_slowdown"}


def test_older_drivers_say_throttle_and_not_event() -> None:
    text = recorded("smi-hot-5090.xml").replace("clocks_event_reason", "clocks_throttle_reason")

    assert parse_gpus(text)[0].throttles == {"hw_slowdown", "hw_thermal_slowdown"}


def test_no_card() -> None:
    assert parse_gpus(recorded("smi-none.xml")) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begins 'nothing'"),
        (recorded("smi-failed.txt"), "begins .NVIDIA-SMI has failed"),
        ("<html></html>", "but <html>"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log/>', "declares entities"),
        ("<nvidia_smi_log><gpu/></nvidia_smi_log>", "does not say how much memory"),
        ("x" * (5 << 20), "too many"),
    ],
)
def test_what_is_no_output(text: str, why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        parse_gpus(text)


def test_fatal_xids_of_the_kernel_log() -> None:
    log = (
        "[   12.500000] NVRM: loading NVIDIA UNIX Open Kernel Module\n"
        "[  901.123456] NVRM: Xid (PCI:0000:c1:00): 79, pid=77, name=python, GPU has fallen off the bus.\n"
        "[  902.000000] NVRM: Xid (PCI:0000:01:00): 31, pid=78, name=python, Ch 00000008, MMU Fault\n"
        "[  903.000000] NVRM: Xid (PCI:0000:01:00): 48, Double Bit ECC Error\n"
    )

    assert parse_xids(log) == (Xid(901.123456, "00000000:C1:00.0", 79), Xid(903.0, "00000000:01:00.0", 48))


def test_a_short_slowdown_is_forgiven() -> None:
    verdict, watched = fitness_for(HOT, Watched(), 100.0)
    assert verdict.fit
    verdict, watched = fitness_for(COOL, watched, 101.0)
    assert verdict.fit
    verdict, _ = fitness_for(HOT, watched, 100.0 + SLOW_SECONDS + 1)
    assert verdict.fit


def test_a_long_slowdown_takes_a_card_out_until_it_was_cool_for_a_while() -> None:
    _, watched = fitness_for(HOT, Watched(), 100.0)
    verdict, watched = fitness_for(HOT, watched, 100.0 + SLOW_SECONDS)
    assert not verdict.fit
    assert verdict.why == "thermal slowdown by hardware at 92 °C for 10 s"
    verdict, watched = fitness_for(COOL, watched, 200.0)
    assert not verdict.fit
    verdict, again = fitness_for(HOT, watched, 201.0)
    assert not verdict.fit
    assert not fitness_for(COOL, again, 202.0)[0].fit
    verdict, watched = fitness_for(COOL, watched, 200.0 + RECOVER_SECONDS)
    assert (verdict.fit, verdict.why) == (True, "healthy again")
    assert watched == Watched()


def test_an_xid_is_not_forgotten() -> None:
    verdict, watched = fitness_for(COOL, Watched(), 0.0, 79)
    assert (verdict.fit, verdict.why) == (False, "Xid 79: GPU has fallen off the bus")
    assert not fitness_for(COOL, watched, 1e6)[0].fit


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (None, "does not list"),
        (attrs.evolve(COOL, memory_failed=True), "row remapping failed"),
        (attrs.evolve(COOL, needs_recovery="Reset"), "recovery: Reset"),
    ],
)
def test_a_broken_card(state: GpuState | None, why: str) -> None:
    verdict, watched = fitness_for(state, Watched(), 0.0)

    assert not verdict.fit
    assert why in verdict.why
    assert watched.unfit


def test_what_the_driver_asks_for() -> None:
    text = recorded("smi-1xL4.xml")
    asks = text.replace("<gpu_recovery_action>None<", "<gpu_recovery_action>Reset<")
    failed = text.replace("<remapped_row_failure>No<", "<remapped_row_failure>Yes<")

    assert parse_gpus(text)[0].needs_recovery is None
    assert parse_gpus(asks)[0].needs_recovery == "Reset"
    assert parse_gpus(failed)[0].memory_failed
