import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference.health import CircuitBreaker, CircuitState, Outcome

FAILED, OK, NEUTRAL = Outcome.FAILED, Outcome.OK, Outcome.NEUTRAL


def fail(breaker: CircuitBreaker, now: float, times: int = 3) -> None:
    for _ in range(times):
        breaker.observe(FAILED, now)


def test_three_failures_in_a_row_open_it() -> None:
    breaker = CircuitBreaker()
    for outcome in (FAILED, FAILED, OK, FAILED, FAILED, NEUTRAL):
        breaker.observe(outcome, 1.0)
    assert not breaker.is_open(1.0)

    breaker.observe(FAILED, 2.0)
    assert breaker.is_open(2.0)
    assert breaker.state(2.0) is CircuitState.OPEN


def test_after_the_cool_down_one_request_tries() -> None:
    breaker = CircuitBreaker(cooldown_seconds=5.0)
    fail(breaker, 10.0)
    assert breaker.is_open(14.9)
    assert not breaker.begin(14.9)

    assert not breaker.is_open(15.0)
    assert breaker.begin(15.0)
    assert breaker.is_open(15.0)
    assert not breaker.begin(15.0)
    breaker.observe(OK, 15.5, trial=True)
    assert breaker.state(15.5) is CircuitState.CLOSED


def test_a_failed_trial_doubles_the_cool_down_up_to_its_cap() -> None:
    breaker = CircuitBreaker(cooldown_seconds=5.0, max_cooldown_seconds=12.0)
    fail(breaker, 0.0)
    now = 0.0
    for cooldown in (5.0, 10.0, 12.0, 12.0):
        assert breaker.is_open(now + cooldown - 0.01)
        now += cooldown
        assert breaker.begin(now)
        breaker.observe(FAILED, now, trial=True)


def test_a_cancelled_trial_lets_the_next_one_try() -> None:
    breaker = CircuitBreaker()
    fail(breaker, 0.0)
    assert breaker.begin(6.0)
    breaker.observe(NEUTRAL, 7.0, trial=True)

    assert not breaker.is_open(7.0)
    assert breaker.begin(7.0)


@pytest.mark.parametrize("late", list(Outcome))
def test_late_ends_of_old_requests_do_not_move_an_open_circuit(late: Outcome) -> None:
    breaker = CircuitBreaker()
    fail(breaker, 0.0)
    breaker.observe(late, 1.0)

    assert breaker.opened_at == 0.0
    assert breaker.openings == 1


def test_answered_probes_do_not_hide_failing_requests() -> None:
    breaker = CircuitBreaker()
    for now in (0.0, 1.0, 2.0):
        breaker.observe_probe(OK, now)
        breaker.observe(FAILED, now)
    assert breaker.is_open(2.0)


def test_failing_probes_open_it_without_any_request_and_keep_it_open() -> None:
    breaker = CircuitBreaker()
    for now in range(0, 30, 2):
        breaker.observe_probe(FAILED, float(now))
    assert breaker.is_open(29.0)


class BreakerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker()
        self.now = 0.0
        self.out: list[bool] = []  # requests: is it the trial

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def send(self) -> None:
        if not self.breaker.is_open(self.now):
            self.out.append(self.breaker.begin(self.now))

    @rule(outcome=st.sampled_from(Outcome), index=st.integers(0, 9))
    def end(self, outcome: Outcome, index: int) -> None:
        if self.out:
            self.breaker.observe(outcome, self.now, trial=self.out.pop(index % len(self.out)))

    @rule(outcome=st.sampled_from([OK, FAILED]))
    def probe(self, outcome: Outcome) -> None:
        self.breaker.observe_probe(outcome, self.now)

    @invariant()
    def an_open_circuit_opens_again_by_itself_within_the_cap(self) -> None:
        if self.breaker.state(self.now) is CircuitState.OPEN:
            assert self.breaker.state(self.now + 60.0) is CircuitState.HALF_OPEN

    @invariant()
    def it_is_never_stuck_behind_a_trial_that_nobody_runs(self) -> None:
        if self.breaker.trying:
            assert any(self.out)


TestBreakerMachine = BreakerMachine.TestCase
