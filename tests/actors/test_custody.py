"""Who has a phone: one person at a time, and nobody for ever."""

from actors.custody import IDLE_SECONDS, Custody


def test_one_person_at_a_time() -> None:
    custody = Custody()

    assert custody.take("ann", 10.0)
    assert not custody.take("bob", 11.0)
    assert not custody.use("bob", 11.0)
    assert (custody.holder(12.0), custody.since) == ("ann", 10.0)
    assert custody.give_back()
    assert not custody.give_back()
    assert custody.take("bob", 13.0)


def test_without_input_it_ends_by_itself() -> None:
    custody = Custody()
    custody.take("ann", 0.0)
    assert custody.use("ann", IDLE_SECONDS - 1)

    assert custody.holder(2 * IDLE_SECONDS - 2) == "ann"
    assert custody.holder(2 * IDLE_SECONDS - 1) is None
    assert not custody.use("ann", 2 * IDLE_SECONDS)
    assert not custody.give_back(), "there is nothing left to give back"


def test_a_stopped_run_is_held_with_and_without_a_person() -> None:
    custody = Custody(stopped_by="boss")
    assert custody.held(0.0) == "boss"

    custody.take("ann", 0.0)

    assert custody.held(1.0) == "ann"
    assert custody.held(IDLE_SECONDS) == "boss"
