"""What kinds of findings there are, and what people may say of one. Pure."""

from enum import StrEnum


class FindingKind(StrEnum):
    """What kind of thing went wrong."""

    CRASH = "crash"
    NATIVE_CRASH = "native_crash"
    ANR = "anr"
    AWAY = "away"
    """Something else was in front of the app."""
    STUCK = "stuck"
    """Nothing had any effect until the episode was given up."""
    NO_EFFECT = "no_effect"
    """A planned action changed nothing."""
    BLACK = "black"
    """The phone gave no picture of the screen."""
    MISSED = "missed"
    """The episode failed its criteria."""


class FindingState(StrEnum):
    """What people say of a finding."""

    NEW = "new"
    KNOWN = "known"
    FIXED = "fixed"
    IGNORED = "ignored"
