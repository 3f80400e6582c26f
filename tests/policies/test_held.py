"""When a hold begins and ends."""

from policies.held import HoldChange, HoldWatch


def test_it_begins_lasts_and_ends_once() -> None:
    watch = HoldWatch()

    found = [watch.step(held, now) for now, held in enumerate([None, "ann", "ann", "bob", None, None])]

    assert found == [
        HoldChange.FREE,
        HoldChange.BEGAN,
        HoldChange.HELD,
        HoldChange.HELD,
        HoldChange.ENDED,
        HoldChange.FREE,
    ]
    assert (watch.by, watch.released_at) == (None, 4)
