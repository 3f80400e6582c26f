"""Which capture method is best for a phone, given how each did. Nothing that waits."""

from collections.abc import Sequence

import attrs

from actors.devices.base import CaptureMethod
from policies.verdict import Agreement

REFERENCE = CaptureMethod.PNG
SAFE_CHOICE = CaptureMethod.RAW
"""Where nothing can be compared: the same program on the phone as the reference, without a codec."""


@attrs.frozen
class MethodTrial:
    """How one method did."""

    method: CaptureMethod
    seconds: float | None = None
    """Median of a capture; None where none succeeded."""
    received_bytes: int = 0
    agreement: Agreement | None = None
    """With the reference; None where the reference itself was black, so that nothing can be said."""
    error: str | None = None


@attrs.frozen
class Choice:
    """The method to use, and why."""

    method: CaptureMethod
    why: str
    is_sure: bool
    """It was compared, and may be remembered."""


def choose(trials: Sequence[MethodTrial]) -> Choice:
    """The quickest method that agrees with the reference."""
    able = [trial for trial in trials if trial.seconds is not None]
    agreeing = [trial for trial in able if trial.agreement is Agreement.SAME]
    if agreeing:
        best = min(agreeing, key=_seconds)
        rest = "; ".join(_told(trial) for trial in trials if trial is not best)
        return Choice(best.method, f"{_told(best)}; {rest}" if rest else _told(best), is_sure=True)
    unjudged = [trial for trial in able if trial.agreement is None and trial.method is not CaptureMethod.SCRCPY]
    if unjudged:
        best = min(unjudged, key=_seconds)
        return Choice(best.method, "the screen is black: the quickest, uncompared", is_sure=False)
    return Choice(SAFE_CHOICE, "; ".join(_told(trial) for trial in trials), is_sure=False)


def _seconds(trial: MethodTrial) -> float:
    assert trial.seconds is not None
    return trial.seconds


def _told(trial: MethodTrial) -> str:
    if trial.error is not None or trial.seconds is None:
        return f"{trial.method.value}: {trial.error}"
    verdict = trial.agreement.value if trial.agreement is not None else "not compared"
    return f"{trial.method.value}: {trial.seconds * 1000:.0f} ms, {verdict}"
