from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.fairness import QUANTUM_TOKENS, FairQueue, TenantKey
from runtime.ids import TenantId


def tenant(name: str) -> TenantKey:
    return ("bots", TenantId(name))


A, B, C = tenant("a"), tenant("b"), tenant("c")
SEATS = 10**6  # so many that no seat is kept free


def take(queue: FairQueue, now: float = 0.0, limit: int = SEATS) -> TenantKey | None:
    ticket = queue.pop(limit, now)
    return None if ticket is None else ticket.tenant


def test_inside_a_tenant_the_earliest_deadline_goes_first() -> None:
    queue = FairQueue()
    for deadline in (5.0, 3.0, 9.0, 3.0):
        queue.push(A, deadline, 10.0, 0.0)

    taken = [queue.pop(SEATS, 0.0) for _ in range(4)]

    assert [ticket.deadline for ticket in taken if ticket] == [3.0, 3.0, 5.0, 9.0]
    assert queue.pop(SEATS, 0.0) is None
    assert queue.waiting == 0


def test_a_tenant_with_a_thousand_small_requests_and_one_with_large_ones_get_the_same_tokens() -> None:
    queue = FairQueue()
    served = {A: 0.0, B: 0.0}
    for _ in range(1000):
        queue.push(A, 1.0, 100.0, 0.0)
    for _ in range(20):
        queue.push(B, 1.0, 5000.0, 0.0)
    for _ in range(500):
        ticket = queue.pop(SEATS, 0.0)
        assert ticket is not None
        served[ticket.tenant] += ticket.cost

    assert abs(served[A] - served[B]) <= 5000.0 + QUANTUM_TOKENS


def test_weights_share_in_proportion() -> None:
    queue = FairQueue({TenantId("a"): 3.0})
    served = {A: 0.0, B: 0.0}
    for _ in range(4000):
        queue.push(A, 1.0, 50.0, 0.0)
        queue.push(B, 1.0, 50.0, 0.0)
    for _ in range(4000):
        ticket = queue.pop(SEATS, 0.0)
        assert ticket is not None
        served[ticket.tenant] += ticket.cost

    assert served[A] / served[B] == pytest.approx(3.0, rel=0.05)


def test_who_was_away_has_saved_nothing_up() -> None:
    queue = FairQueue()
    queue.push(B, 1.0, 100.0, 0.0)
    take(queue)
    queue.ended(B, 100.0, 100.0, 0.0)
    for _ in range(200):
        queue.push(A, 1.0, 100.0, 0.0)
    for _ in range(100):
        take(queue)
    for _ in range(200):
        queue.push(B, 1.0, 100.0, 0.0)

    next_ones = [take(queue) for _ in range(100)]

    assert 40 <= next_ones.count(A) <= 60


def test_who_left_in_debt_does_not_escape_it_by_coming_back() -> None:
    queue = FairQueue()
    for _ in range(50):
        queue.push(B, 1.0, 100.0, 0.0)
    queue.push(A, 1.0, 3000.0, 0.0)
    while take(queue) != A:
        pass
    queue.push(A, 1.0, 100.0, 0.0)

    assert [take(queue) for _ in range(15)].count(A) == 0


def test_what_a_request_really_cost_is_settled() -> None:
    queue = FairQueue()
    queue.push(A, 1.0, 1000.0, 0.0)
    take(queue)
    queue.ended(A, 1000.0, 200.0, 0.0)
    assert queue.charged(A) == pytest.approx(200.0)
    queue.admit(A, 10.0, 0.0)
    queue.ended(A, 10.0, 5000.0, 0.0)
    assert queue.charged(A) == pytest.approx(5200.0)


def test_the_last_seats_are_kept_for_others_who_were_here_lately() -> None:
    queue = FairQueue()
    queue.admit(B, 1.0, 0.0)
    queue.ended(B, 1.0, 1.0, 0.0)
    for _ in range(8):
        queue.push(A, 1.0, 100.0, 1.0)
    assert [take(queue, 1.0, limit=8) for _ in range(8)] == [A] * 7 + [None]
    assert not queue.may_hold(A, 8, 1.0)
    assert queue.may_hold(B, 8, 1.0)
    assert queue.may_hold(A, 8, 11.0), "nobody else has been here for ten seconds"
    assert take(queue, 11.0, limit=8) == A


def test_one_seat_is_for_everybody() -> None:
    queue = FairQueue()
    queue.admit(B, 1.0, 0.0)
    assert queue.may_hold(A, 1, 0.0)


def test_many_who_gave_up_are_not_kept() -> None:
    queue = FairQueue()
    for _ in range(300):
        queue.leave(queue.push(A, 1.0, 1.0, 0.0))
    assert len(queue._accounts[A].heap) <= 17
    assert queue.clear() == []


def test_an_idle_tenant_is_forgotten_when_there_are_too_many() -> None:
    queue = FairQueue()
    for number in range(1100):
        queue.admit(tenant(f"t{number}"), 1.0, 0.0)
        queue.ended(tenant(f"t{number}"), 1.0, 1.0, 0.0)
    assert len(queue._accounts) == 1000
    assert len(queue._recent) == 1000


@settings(max_examples=150)
@given(
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.floats(0.25, 4.0),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_two_who_wait_all_the_time_differ_by_no_more_than_the_published_bound(
    seed: int, seats: int, weight: float, misjudged: float
) -> None:
    """VTC's bound with a quantum: 2 x (quantum + U), U the most that one tenant's running requests cost."""
    dice = Random(seed)
    queue = FairQueue({TenantId("a"): weight})
    weights = {A: weight, B: 1.0, C: 1.0}
    sizes = {A: (10, 400), B: (10, 100_000 if seed % 2 else 4000), C: (10, 1000)}
    running: list[tuple[TenantKey, float, float]] = []
    served = {A: 0.0, B: 0.0}  # over weight; as charged at dispatch, and settled
    largest = 0.0
    for _ in range(400):
        for who in (A, B):
            while queue.waiting_of(who) < 2:
                queue.push(who, dice.random(), float(dice.randint(*sizes[who])), 0.0)
        if dice.random() < 0.1:
            queue.push(C, dice.random(), float(dice.randint(*sizes[C])), 0.0)  # comes and goes
        while len(running) < seats and (ticket := queue.pop(SEATS, 0.0)) is not None:
            actual = ticket.cost * max(0.0, 1.0 + dice.uniform(-misjudged, misjudged))
            running.append((ticket.tenant, ticket.cost, actual))
            if ticket.tenant in served:
                served[ticket.tenant] += ticket.cost / weights[ticket.tenant]
            largest = max(largest, ticket.cost / weights[ticket.tenant], actual / weights[ticket.tenant])
        who, cost, actual = running.pop(dice.randrange(len(running)))
        queue.ended(who, cost, actual, 0.0)
        if who in served:
            served[who] += (actual - cost) / weights[who]
        assert abs(served[A] - served[B]) <= 2 * (QUANTUM_TOKENS + seats * largest)
