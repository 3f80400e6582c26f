"""When a person is called for, and when the bot goes on."""

import pytest

from policies.human import HumanSettings, HumanWatch, Resume, expired_reason
from policies.perception import Percept
from policies.probes import Reading
from policies.reflex import Condition
from tests.kit.percepts import percept

CAPTCHA = (Condition("captcha"),)


def seen(at: float, *, captcha: bool) -> Percept:
    return percept(int(at * 10), at, readings={"captcha": Reading(float(captcha), captcha)})


@pytest.mark.parametrize("resume", list(Resume))
def test_a_hit_pauses_at_once_and_says_why(resume: Resume) -> None:
    watch = HumanWatch(HumanSettings(CAPTCHA, resume))

    watch.step(seen(1, captcha=True), 1)

    assert watch.paused == "the probe captcha shows that a person is needed"


def test_manual_goes_on_by_a_person_alone() -> None:
    watch = HumanWatch(HumanSettings(CAPTCHA, Resume.MANUAL))
    watch.step(seen(1, captcha=True), 1)

    for at in range(2, 9):
        watch.step(seen(at, captcha=False), at)
    assert watch.paused is not None
    watch.step(None, 9, resumed=True)

    assert watch.paused is None


def test_auto_goes_on_when_the_screen_is_clear_for_two_frames() -> None:
    watch = HumanWatch(HumanSettings(CAPTCHA, Resume.AUTO))
    watch.step(seen(1, captcha=True), 1)

    paused = []
    for at, captcha in enumerate([False, True, False], start=2):
        watch.step(seen(at, captcha=captcha), at)
        paused.append(watch.paused is not None)
    watch.step(None, 5)
    paused.append(watch.paused is not None)
    watch.step(seen(6, captcha=False), 6)

    assert paused == [True, True, True, True]
    assert watch.paused is None


def test_after_a_resume_the_same_screen_does_not_pause_again_until_it_was_gone() -> None:
    watch = HumanWatch(HumanSettings(CAPTCHA))
    watch.step(seen(1, captcha=True), 1)
    watch.step(seen(2, captcha=True), 2, resumed=True)
    watch.step(seen(3, captcha=True), 3)
    assert watch.paused is None

    watch.step(seen(4, captcha=False), 4)
    watch.step(seen(5, captcha=True), 5)

    assert watch.paused is not None


def test_nobody_comes() -> None:
    watch = HumanWatch(HumanSettings(CAPTCHA, wait_seconds=10))
    watch.step(seen(1, captcha=True), 1)

    assert watch.due_at == 11
    assert not watch.is_expired(10.9)
    assert watch.is_expired(11)
    assert expired_reason(watch).startswith("needs_human: nobody came within 10 s; the probe captcha")


def test_a_resume_without_a_pause_does_nothing() -> None:
    watch = HumanWatch(HumanSettings(CAPTCHA))
    watch.step(None, 0, resumed=True)

    watch.step(seen(1, captcha=True), 1)

    assert watch.paused is not None
