"""What is done about phones that are listed so or so: one at a time, and all together."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.devices.adb.connection_states import (
    AT_ONCE,
    HEAL_AFTER_SECONDS,
    PROBE_EVERY_SECONDS,
    PROBES_AT_ONCE,
    PROBES_BEFORE_HEAL,
    RECONNECT_CAP_SECONDS,
    RECONNECT_SECONDS,
    SLOW_SECONDS,
    STAGGER_SECONDS,
    STUCK_SECONDS,
    ConnectionStates,
    Standing,
    Step,
    is_network_address,
)
from actors.devices.adb.wire import DeviceEntry

PHONE = "10.0.0.7:5555"
USB = "R58M123ABC"


def entries(states: dict[str, str]) -> list[DeviceEntry]:
    return [DeviceEntry(address, state) for address, state in states.items()]


def steps(states: ConnectionStates, now: float, draw: float = 1.0) -> list[tuple[str, Step]]:
    return states.next_steps(now, lambda: draw)


def standing(states: ConnectionStates) -> Standing:
    phone = states.find(PHONE)
    assert phone is not None
    return phone.standing


def one(state: str | None, *, address: str = PHONE) -> ConnectionStates:
    states = ConnectionStates()
    states.want(address)
    states.observe(entries({} if state is None else {address: state}), 0.0)
    return states


@pytest.mark.parametrize(
    ("state", "seconds", "address", "expected"),
    [
        (None, 0.0, PHONE, Step.CONNECT),
        (None, 99.0, USB, None),
        ("device", 0.0, PHONE, Step.PROBE),
        ("device", 0.0, USB, Step.PROBE),
        ("offline", HEAL_AFTER_SECONDS / 2, PHONE, None),
        ("offline", HEAL_AFTER_SECONDS, PHONE, Step.HEAL),
        ("offline", 99.0, USB, None),
        ("authorizing", STUCK_SECONDS / 2, PHONE, None),
        ("authorizing", STUCK_SECONDS, PHONE, Step.HEAL),
        ("unauthorized", 1e6, PHONE, None),
        ("unauthorized", 1e6, USB, None),
    ],
)
def test_the_first_step(state: str | None, seconds: float, address: str, expected: Step | None) -> None:
    assert [step for _, step in steps(one(state, address=address), seconds)] == ([expected] if expected else [])


def test_nothing_is_done_before_the_server_has_listed_its_phones() -> None:
    states = ConnectionStates()
    states.want(PHONE)

    assert steps(states, 0.0) == []


def test_pauses_between_connects_double_up_to_a_limit_and_end_with_an_answer() -> None:
    states, now, pauses = one(None), 0.0, []
    for _ in range(7):
        before = now
        while steps(states, now) != [(PHONE, Step.CONNECT)]:
            now = states.next_at(now)
        pauses.append(now - before)
        states.ended(PHONE, Step.CONNECT, now)

    assert pauses == pytest.approx([0.0, *(min(RECONNECT_CAP_SECONDS, RECONNECT_SECONDS * 2**n) for n in range(6))])

    states.observe(entries({PHONE: "device"}), now)
    assert steps(states, now) == [(PHONE, Step.PROBE)]
    states.ended(PHONE, Step.PROBE, now, answered=True)
    states.observe([], now)
    now += STAGGER_SECONDS
    assert steps(states, now) == [(PHONE, Step.CONNECT)], "a phone that answered is connected again at once"


def test_an_unauthorized_phone_is_left_alone_until_that_changes() -> None:
    states = one("unauthorized")
    assert steps(states, 3600.0) == []
    assert standing(states) is Standing.UNAUTHORIZED

    states.observe(entries({PHONE: "device"}), 3600.0)
    assert steps(states, 3600.0) == [(PHONE, Step.PROBE)]


def test_ready_is_who_has_answered_since_it_is_listed_and_since_it_was_doubted() -> None:
    states = one("device")
    assert standing(states) is Standing.UNPROVEN
    steps(states, 1.0)
    states.ended(PHONE, Step.PROBE, 1.0, answered=True)
    assert standing(states) is Standing.READY
    assert steps(states, 1.0) == []

    states.doubt(PHONE)
    assert standing(states) is Standing.UNPROVEN
    assert steps(states, 1.0) == [(PHONE, Step.PROBE)]


def test_a_device_that_does_not_answer_is_silent_and_is_healed() -> None:
    states, now = one("device"), 0.0
    for _ in range(PROBES_BEFORE_HEAL):
        assert steps(states, now) == [(PHONE, Step.PROBE)]
        now += 3.0
        states.ended(PHONE, Step.PROBE, now)
    assert standing(states) is Standing.SILENT
    assert steps(states, now) == [(PHONE, Step.HEAL)]


def test_a_phone_that_somebody_hears_from_is_not_asked() -> None:
    states = one("device")
    steps(states, 0.0)
    states.ended(PHONE, Step.PROBE, 0.0, answered=True)

    states.proved(PHONE, PROBE_EVERY_SECONDS - 1)
    assert steps(states, PROBE_EVERY_SECONDS + 1) == []
    assert steps(states, 2 * PROBE_EVERY_SECONDS) == [(PHONE, Step.PROBE)]


def test_a_restarted_server_meets_its_phones_one_after_another_and_few_at_a_time() -> None:
    states = ConnectionStates()
    addresses = [f"10.0.0.{number}:5555" for number in range(20)]
    for address in addresses:
        states.want(address)
    states.observe(entries(dict.fromkeys(addresses, "device")), 0.0)
    states.server_lost()
    states.observe([], 1.0)

    begun: list[tuple[float, str]] = []
    now = 1.0
    while len(begun) < AT_ONCE:
        begun += [(now, address) for address, step in steps(states, now)]
        now = states.next_at(now)
    times = [at for at, _ in begun]
    assert all(later - earlier >= STAGGER_SECONDS * 0.99 for earlier, later in pairwise(times))
    assert steps(states, times[0] + SLOW_SECONDS * 0.9) == [], "the door is full"
    assert len(steps(states, now + SLOW_SECONDS)) == 1, "and what is slow does not keep it shut"
    states.ended(begun[0][1], Step.CONNECT, now + 60)
    assert [step for _, step in steps(states, now + 60)] == [Step.CONNECT]


def test_dead_phones_keep_no_other_one_from_its_turn() -> None:
    states = ConnectionStates()
    dead = [f"10.0.1.{number}:5555" for number in range(20)]
    live = [f"10.0.0.{number}:5555" for number in range(44)]
    dropped = live[7]
    for address in (*dead, *live):
        states.want(address)
    listed: dict[str, str] = {}
    states.observe(entries(listed), 0.0)
    now, begun = 0.0, set[str]()
    while not begun >= set(live):
        for address, step in steps(states, now):
            begun.add(address)
            if address in live:
                listed[address] = "device"
                states.ended(address, step, now)
        now = states.next_at(now)
    assert now < 10.0, "each of the dead takes ten seconds to say so"

    states.observe(entries(listed), now)
    while asked := [address for address, step in steps(states, now) if step is Step.PROBE]:
        for address in asked:
            states.ended(address, Step.PROBE, now, answered=True)
    del listed[dropped]
    states.observe(entries(listed), now + 20.0)
    for address in dead:
        states.ended(address, Step.CONNECT, now + 20.0)
    first = next(iter([address for address, step in steps(states, now + 30.0) if step is Step.CONNECT]))
    assert first == dropped, "one that was there comes before those that never were"


def test_a_phone_that_nobody_wants_is_disconnected_if_it_was_connected_here() -> None:
    states = one(None)
    steps(states, 0.0)
    states.forget(PHONE)
    assert steps(states, 1.0) == [(PHONE, Step.DISCONNECT)]

    found = one("device")
    found.forget(PHONE)
    assert steps(found, 1.0) == []


def test_addresses() -> None:
    assert is_network_address("127.0.0.1:16000")
    assert is_network_address("phone-7.lab:5555")
    assert is_network_address("[::1]:5555")
    assert not is_network_address("R58M123ABC")
    assert not is_network_address("emulator-5554")


class Fleet(RuleBasedStateMachine):
    """Whatever adb lists and however steps end: the door holds, and no phone has two steps at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.states = ConnectionStates()
        self.now = 0.0
        self.running: set[tuple[str, Step]] = set()
        self.addresses = [f"10.0.0.{number}:5555" for number in range(12)]

    @rule(number=st.integers(0, 11))
    def want(self, number: int) -> None:
        self.states.want(self.addresses[number])

    @rule(number=st.integers(0, 11))
    def forget(self, number: int) -> None:
        self.states.forget(self.addresses[number])
        self.running = {(address, step) for address, step in self.running if address != self.addresses[number]}

    @rule(data=st.data())
    def list(self, data: st.DataObject) -> None:
        states = data.draw(
            st.dictionaries(
                st.sampled_from(self.addresses), st.sampled_from(["device", "offline", "unauthorized", "authorizing"])
            )
        )
        self.states.observe(entries(states), self.now)

    @rule(seconds=st.floats(0.0, 30.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(draw=st.floats(0.0, 0.99))
    def begin(self, draw: float) -> None:
        for address, step in self.states.next_steps(self.now, lambda: draw):
            if step is Step.DISCONNECT:
                continue
            assert address not in {known for known, _ in self.running}
            phone = self.states.find(address)
            assert phone is not None
            assert phone.listed != "unauthorized"
            self.running.add((address, step))
        connecting = sum(step in (Step.CONNECT, Step.HEAL) for _, step in self.running)
        assert connecting <= AT_ONCE
        assert sum(step is Step.PROBE for _, step in self.running) <= PROBES_AT_ONCE

    @rule(data=st.data(), answered=st.booleans())
    def end(self, data: st.DataObject, answered: bool) -> None:
        if self.running:
            address, step = data.draw(st.sampled_from(sorted(self.running)))
            self.running.discard((address, step))
            self.states.ended(address, step, self.now, answered=answered)

    @rule()
    def lose_server(self) -> None:
        self.states.server_lost()
        self.running.clear()

    @invariant()
    def ready_has_answered(self) -> None:
        for phone in self.states.phones:
            if phone.standing is Standing.READY:
                assert phone.listed == "device"
                assert phone.proved_at is not None


TestFleet: Any = Fleet.TestCase
TestFleet.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
