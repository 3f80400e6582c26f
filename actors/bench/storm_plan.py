"""The plan of a storm: every kind of fault on most phones, one after another at random, and some phones spared."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import attrs

from actors.rehearsal.phone.faults import (
    KINDS,
    Banner,
    Black,
    Crlf,
    DeafInput,
    Duplicate,
    Fault,
    Freeze,
    HalfClose,
    PartBlack,
    Reboot,
    Reset,
    Resize,
    Rotate,
    Secure,
    SlowInput,
    Stamped,
    Trickle,
    Truncate,
    Unauthorized,
)

SPARED_EACH = 4  # every fourth phone has no fault: they show whether the others' troubles reach them
QUIET_SECONDS = 4.0  # for phones to be found and to begin to play
SHORTEST_SPELL_SECONDS, LONGEST_SPELL_SECONDS = 2.0, 10.0  # some shorter, some longer than a capture's deadline
LONGEST_GAP_SECONDS = 40.0  # a phone that is lost again every 25 s is given up after eight times, and weathers no more
SIZE = "540x960"

Draw = Callable[[], float]
"""A number in [0, 1)."""
T = TypeVar("T")


@attrs.frozen
class StormPlan:
    """Which phones have which faults, and which have none."""

    faults: tuple[Fault, ...]
    spared: frozenset[int]
    """Numbers of the phones without a fault, from 0."""

    def counts(self) -> dict[str, int]:
        """Faults by kind."""
        return {name: sum(type(fault) is kind for fault in self.faults) for name, kind in KINDS.items()}


def plan_storm(phones: int, seconds: float, draw: Draw) -> StormPlan:
    """A storm of `seconds` over `phones` phones; every kind comes before any comes again.

    Args:
        phones: How many there are.
        seconds: How long it lasts; its last faults end before that.
        draw: The storm's chance.

    Raises:
        ValueError: there is no phone, or no time for a fault.
    """
    if phones < 1 or seconds <= 2 * QUIET_SECONDS:
        raise ValueError(f"a storm needs a phone and more than {2 * QUIET_SECONDS:g} s: {phones} phones, {seconds:g} s")
    each = min(SPARED_EACH, phones)  # few phones have one without a fault, too: else there is no pace to tell of
    spared = frozenset(number for number in range(phones) if phones > 1 and number % each == each - 1)
    gap_seconds = min(LONGEST_GAP_SECONDS, seconds / 8)
    deck = _deck(draw)
    faults: list[Fault] = []
    doubled: set[int] = set()
    due = {number: QUIET_SECONDS + draw() * gap_seconds for number in range(phones) if number not in spared}
    while due:
        number = min(due, key=lambda one: (due[one], one))
        at = due[number]
        kind = next(deck)
        if kind is Duplicate and number in doubled:
            kind = next(deck)  # a phone has one second address at most; no two of them are next to each other
        spell = SHORTEST_SPELL_SECONDS + draw() ** 2 * (LONGEST_SPELL_SECONDS - SHORTEST_SPELL_SECONDS)
        spell = min(spell, gap_seconds)
        if at + spell > seconds - QUIET_SECONDS / 2:
            del due[number]
            continue
        if kind is Duplicate:
            doubled.add(number)
        faults.append(_fault(kind, number, round(at, 2), round(spell, 2), draw))
        due[number] = at + spell + (0.3 + 0.7 * draw()) * gap_seconds
    return StormPlan(tuple(faults), spared)


def _deck(draw: Draw) -> Iterator[type[Fault]]:
    """Every kind in random order, and again, without end; no two neighbours are equal."""
    last: type[Fault] | None = None
    while True:
        order = _shuffled(tuple(KINDS.values()), draw)
        if order[0] is last:
            order.reverse()
        yield from order
        last = order[-1]


def _shuffled(values: Sequence[T], draw: Draw) -> list[T]:
    left = list(values)
    return [left.pop(int(draw() * len(left))) for _ in range(len(left))]


def _fault(kind: type[Fault], number: int, at: float, spell: float, draw: Draw) -> Fault:
    phones = (number,)
    if kind is Duplicate:
        return Duplicate(phones=phones)
    if kind is Reset:
        return Reset(phones=phones, at_seconds=at)
    if kind is HalfClose:
        return HalfClose(phones=phones, at_seconds=at)
    if kind is Reboot:
        return Reboot(phones=phones, at_seconds=at, off_seconds=min(spell, 4.0))
    if kind is Truncate:
        return Truncate(phones=phones, at_seconds=at, seconds=spell, at_byte=int(draw() * 200_000))
    if kind is Trickle:
        return Trickle(phones=phones, at_seconds=at, seconds=spell, bytes_per_second=round(10_000 + draw() * 400_000))
    if kind is PartBlack:
        return PartBlack(phones=phones, at_seconds=at, seconds=spell, share=round(0.2 + 0.7 * draw(), 2))
    if kind is Rotate:
        return Rotate(phones=phones, at_seconds=at, seconds=spell, quarters=1 + int(draw() * 3))
    if kind is Resize:
        return Resize(phones=phones, at_seconds=at, seconds=spell, size=SIZE)
    if kind is SlowInput:
        return SlowInput(phones=phones, at_seconds=at, seconds=spell, delay_seconds=round(0.5 + 2 * draw(), 2))
    assert kind in (Freeze, Crlf, Banner, Black, Secure, Unauthorized, DeafInput, Stamped), kind
    return kind(phones=phones, at_seconds=at, seconds=spell)
