"""Works on a farm's state until it is killed: `python -m tests.kit.farm_kills FOLDER SEED`.

Prints what was acknowledged.
"""

import json
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from actors.farm.afterwards import Next, next_for
from actors.farm.database import open_database, open_folder
from actors.farm.store import Store
from actors.farm.work import AttemptOutcome, Work
from runtime.ids import TenantId

PHONES = ("p0", "p1", "p2", "p3")


def main(folder: Path, seed: int) -> None:
    """Submit, start and end runs at random for ever."""
    draw = random.Random(seed)
    with open_folder(folder) as state:
        store = Store(open_database(state))
        _say("ready", "")
        now = 0.0
        for number in range(1_000_000):
            now += 1.0
            busy = set(store.reservations())
            free = [phone for phone in PHONES if phone not in busy]
            waiting = [one for one in store.waiting() if one.held is None]
            choice = draw.random()
            if choice < 0.4 or not (waiting or busy):
                run = f"{seed}-{number}"
                store.submit(Work(TenantId("t"), "u", "s", 1, repeats=1), run, now)
                _say("submitted", run)
            elif waiting and free and choice < 0.7:
                attempt = store.start(waiting[0].run, free[:1], now)
                _say("started", attempt.attempt)
            elif under_way := store.under_way():
                attempt = draw.choice(under_way)
                outcome = draw.choice([AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED])
                store.end(attempt.attempt, outcome, partial(_following, now), now)
                _say("ended", attempt.attempt)


def _following(now: float, work: Work, outcomes: Sequence[AttemptOutcome]) -> Next:
    return next_for(work, outcomes, now)


def _say(what: str, which: str) -> None:
    sys.stdout.write(json.dumps([what, which]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
