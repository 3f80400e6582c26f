"""Which run folders go."""

from actors.farm.config import RetentionConfig
from actors.farm.retention import DAY_SECONDS, StoredAttempt, removals_for
from actors.farm.work import AttemptOutcome

CONFIG = RetentionConfig(disk_gb=1.0, succeeded_days=2, failed_days=10, other_days=5)
NOW = 100 * DAY_SECONDS


def stored(
    name: str, outcome: AttemptOutcome, days: float, megabytes: int = 1, *, pinned: bool = False, scanned: bool = True
) -> StoredAttempt:
    return StoredAttempt(name, outcome, NOW - days * DAY_SECONDS, megabytes * 1_000_000, pinned, scanned)


def test_what_is_older_than_its_outcome_is_kept_goes_unless_it_is_pinned() -> None:
    found = removals_for(
        [
            stored("old success", AttemptOutcome.SUCCEEDED, 3),
            stored("pinned success", AttemptOutcome.SUCCEEDED, 99, pinned=True),
            stored("success", AttemptOutcome.SUCCEEDED, 1),
            stored("failure", AttemptOutcome.FAILED, 9),
            stored("old failure", AttemptOutcome.FAILED, 11),
            stored("old cancel", AttemptOutcome.CANCELLED, 6),
        ],
        CONFIG,
        NOW,
    )

    assert {one.attempt for one in found} == {"old success", "old failure", "old cancel"}


def test_beyond_the_budget_the_oldest_go_successes_first_and_no_more_than_needed() -> None:
    found = removals_for(
        [
            stored("failure", AttemptOutcome.FAILED, 9, 600),
            stored("pinned", AttemptOutcome.SUCCEEDED, 1.9, 300, pinned=True),
            stored("older success", AttemptOutcome.SUCCEEDED, 1.5, 200),
            stored("newer success", AttemptOutcome.SUCCEEDED, 0.5, 50),
        ],
        CONFIG,
        NOW,
    )

    assert [one.attempt for one in found] == ["older success"]
    assert "budget of 1 GB" in found[0].why


def test_pinned_folders_alone_beyond_the_budget_stay() -> None:
    assert removals_for([stored("pinned", AttemptOutcome.FAILED, 99, 5000, pinned=True)], CONFIG, NOW) == []


def test_what_was_not_read_goes_by_the_budget_alone_and_says_that_it_was_not() -> None:
    unread = stored("unread", AttemptOutcome.SUCCEEDED, 99, 700, scanned=False)
    fresh = stored("fresh", AttemptOutcome.FAILED, 1, 200)
    large = stored("large", AttemptOutcome.FAILED, 1, 400)

    assert removals_for([unread, fresh], CONFIG, NOW) == []
    (found,) = removals_for([unread, large], CONFIG, NOW)
    assert (found.attempt, found.scanned) == ("unread", False)
    assert "budget" in found.why
