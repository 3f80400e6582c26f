"""What follows an attempt, and when a daily run is due."""

from datetime import datetime
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.farm.afterwards import Again, Finish, Hold, next_daily, next_for, outcome_of, with_wish, zone_problem
from actors.farm.work import AttemptOutcome, Daily, OnInterrupt, RunState, Work
from runtime.ids import TenantId

WORK = Work(TenantId("a"), "ann", "quickstart", 1)
O = AttemptOutcome  # noqa: E741  # it stands in every line below


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(0, O.SUCCEEDED), (1, O.FAILED), (2, O.WRONG), (3, O.ERRORED), (137, O.ERRORED), (70, O.ERRORED)],
)
def test_exit_codes_of_a_run(code: int, outcome: AttemptOutcome) -> None:
    assert outcome_of(code) is outcome


@pytest.mark.parametrize(
    ("outcomes", "repeats", "state", "flaky"),
    [
        ([O.SUCCEEDED], 0, RunState.SUCCEEDED, False),
        ([O.FAILED, O.SUCCEEDED], 1, RunState.SUCCEEDED, True),
        ([O.INTERRUPTED, O.SUCCEEDED], 0, RunState.SUCCEEDED, False),
        ([O.FAILED], 0, RunState.FAILED, False),
        ([O.FAILED, O.INTERRUPTED, O.FAILED], 1, RunState.FAILED, False),
        ([O.WRONG], 5, RunState.WRONG, False),
        ([O.CANCELLED], 5, RunState.CANCELLED, False),
        ([O.ERRORED, O.ERRORED, O.ERRORED], 5, RunState.ERRORED, False),
    ],
)
def test_results(outcomes: list[AttemptOutcome], repeats: int, state: RunState, flaky: bool) -> None:
    found = next_for(attrs.evolve(WORK, repeats=repeats), outcomes, 0.0)

    assert isinstance(found, Finish)
    assert (found.state, found.flaky) == (state, flaky)


def test_what_is_tried_again_and_when() -> None:
    flaky = attrs.evolve(WORK, repeats=2)

    assert next_for(flaky, [O.FAILED, O.FAILED], 10.0) == Again(10.0, "attempt 2 of 3 failed")
    assert next_for(WORK, [O.INTERRUPTED], 10.0) == Again(10.0, "interrupted, and queued again")
    errors = [next_for(WORK, [O.ERRORED] * count, 0.0) for count in (1, 2)]
    assert [one.at for one in errors if isinstance(one, Again)] == [60.0, 120.0]
    assert isinstance(next_for(WORK, [O.PAUSED], 0.0), Hold)
    failing = next_for(attrs.evolve(WORK, on_interrupt=OnInterrupt.FAIL), [O.INTERRUPTED], 0.0)
    assert isinstance(failing, Finish)
    assert failing.state is RunState.ERRORED


def test_what_was_wished_while_an_attempt_ended_by_itself_is_not_forgotten() -> None:
    again = Again(1.0, "attempt 1 of 3 failed")
    done = Finish(RunState.SUCCEEDED, "every episode succeeded")

    assert with_wish(done, O.CANCELLED) == done
    assert with_wish(again, None) == with_wish(again, O.INTERRUPTED) == again
    assert with_wish(again, O.CANCELLED) == Finish(RunState.CANCELLED, "cancelled while it played")
    assert isinstance(with_wish(again, O.PAUSED), Hold)


@given(st.integers(0, 10), st.lists(st.sampled_from([O.FAILED, O.ERRORED, O.INTERRUPTED, O.PAUSED]), max_size=60))
def test_no_run_is_tried_for_ever(repeats: int, ends: list[AttemptOutcome]) -> None:
    work, outcomes = attrs.evolve(WORK, repeats=repeats), list[AttemptOutcome]()
    for end in ends:
        outcomes.append(end)
        if isinstance(next_for(work, outcomes, 0.0), Finish):
            break

    assert sum(one is not O.PAUSED for one in outcomes) <= (repeats + 1) + 2 + 20


def test_daily_runs_follow_their_place_and_its_clock_changes() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 3, 28, 12, 0, tzinfo=berlin).timestamp()

    first = next_daily(Daily("02:30", "Europe/Berlin"), before)  # on that night there is no 02:30
    second = next_daily(Daily("02:30", "Europe/Berlin"), first)

    assert datetime.fromtimestamp(first, berlin) == datetime(2026, 3, 29, 3, 30, tzinfo=berlin)
    assert datetime.fromtimestamp(second, berlin) == datetime(2026, 3, 30, 2, 30, tzinfo=berlin)


@given(
    st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia"]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(1_700_000_000, 1_900_000_000),
)
def test_the_next_time_is_later_and_less_than_two_days_away(zone: str, hour: int, minute: int, after: int) -> None:
    due = next_daily(Daily(f"{hour:02}:{minute:02}", zone), float(after))

    assert after < due <= after + 49 * 3600


@pytest.mark.parametrize("name", ["Nowhere/Town", "", "../../etc/passwd", "/etc/localtime"])
def test_what_is_no_time_zone(name: str) -> None:
    assert zone_problem(name) is not None
    assert zone_problem("Asia/Shanghai") is None
