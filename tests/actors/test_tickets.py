"""Tickets: whose they are, until when, and what is none."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tickets import MAX_SECONDS, Claims, parse_ticket, sign

KEY = b"k" * 32
CLAIMS = Claims("0123456789ab", "ann", "north", ("viewer", "operator"))
NOW = 1_800_000_000.0


def is_good(text: str, claims: Claims = CLAIMS, *, key: bytes = KEY, now: float = NOW) -> bool:
    found = parse_ticket(text)
    return found is not None and found.is_good(key, claims, now)


def test_a_ticket_is_good_until_its_end() -> None:
    ticket = sign(KEY, CLAIMS, int(NOW) + 60)

    assert is_good(ticket)
    assert is_good(ticket, attrs.evolve(CLAIMS, roles=("operator", "viewer")))
    assert is_good(ticket, now=NOW + 59)
    assert not is_good(ticket, now=NOW + 60)
    assert len(ticket) <= 256


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(CLAIMS, token="0123456789ac"),
        attrs.evolve(CLAIMS, user="bob"),
        attrs.evolve(CLAIMS, tenant="south"),
        attrs.evolve(CLAIMS, roles=("admin",)),
        attrs.evolve(CLAIMS, roles=("viewer",)),
    ],
)
def test_it_stands_for_exactly_whom_it_was_made_for(other: Claims) -> None:
    assert not is_good(sign(KEY, CLAIMS, int(NOW) + 60), other)


def test_another_key_another_end_and_a_life_that_nobody_gives() -> None:
    ticket = sign(KEY, CLAIMS, int(NOW) + 60)

    assert not is_good(ticket, key=b"j" * 32)
    assert not is_good(ticket.replace(str(int(NOW) + 60), str(int(NOW) + 61)))
    assert not is_good(sign(KEY, CLAIMS, int(NOW) + MAX_SECONDS + 100))


@given(st.text(max_size=300))
def test_anything_else_is_no_ticket(text: str) -> None:
    assert parse_ticket(text) is None


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_fields_do_not_run_into_each_other(one: tuple[str, str], other: tuple[str, str]) -> None:
    ticket = sign(KEY, attrs.evolve(CLAIMS, user=one[0], tenant=one[1]), int(NOW) + 60)

    assert is_good(ticket, attrs.evolve(CLAIMS, user=other[0], tenant=other[1])) == (one == other)
