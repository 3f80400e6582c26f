"""All that there is to see of one phone that plays: what was done, what is planned, where the time went, its log."""

from collections.abc import Mapping
from typing import Any

from actors.live_log import LiveAction, LiveTimes, shape_of
from actors.logcat import LogcatLine
from actors.phone import PhoneJob
from policies.action import PlannedAction
from policies.frame import Frame
from policies.outlook import Outlook
from runtime.secret import redact

LOG_TEXT = 300  # characters shown of a line of the log
WHY_TEXT = 300


def detail_for(job: PhoneJob, *, now: float, zero_ms: float) -> dict[str, Any]:
    """As the API shows it, without the row of the phone itself.

    Args:
        job: The phone.
        now: The run's clock.
        zero_ms: When the run's clock was zero, in milliseconds since 1970; the same at every call, so that what did
            not change is told alike.
    """
    session = job.session
    shown: dict[str, Any] = {
        "needs_human": job.needs_human,
        "actions": [],
        "plan": None,
        "ledger": [],
        "log": [],
    }
    if session is None:
        return shown
    return {
        **shown,
        "actions": [_action(one, zero_ms) for one in session.live.actions],
        "plan": _plan(session.policy.outlook, session.newest, now),
        "ledger": [_times(one, zero_ms) for one in session.live.times],
        "log": [_line(one) for one in session.log],
    }


def _action(action: LiveAction, zero_ms: float) -> dict[str, Any]:
    why = redact(action.why)[:WHY_TEXT]
    return {"at_ms": int(zero_ms + action.at * 1000), **_shape(action.shape), "why": why, "outcome": action.outcome}


def _shape(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {**shape, "text": None if shape["text"] is None else redact(shape["text"])}


def _times(times: LiveTimes, zero_ms: float) -> dict[str, Any]:
    seconds: Mapping[str, float | None] = {
        "capture_ms": times.capture,
        "queue_ms": times.queue,
        "prefill_ms": times.prefill,
        "decode_ms": times.decode,
        "act_ms": times.act,
    }
    spent = {name: None if value is None else round(value * 1000, 1) for name, value in seconds.items()}
    return {"at_ms": int(zero_ms + times.at * 1000), **spent, "stale": times.stale, "why": times.why}


def _plan(outlook: Outlook, frame: Frame | None, now: float) -> dict[str, Any] | None:
    """None where nothing is planned and nothing is asked for."""
    stated: list[tuple[PlannedAction, str]] = [*outlook.dropped]
    if outlook.doing is not None:
        stated.append((outlook.doing, "committed"))
    base = outlook.base_seq
    stated += [
        (planned, "committed" if base is not None and planned.seq < base else "next") for planned in outlook.queue
    ]
    if not stated and outlook.request is None:
        return None
    return {
        "request": outlook.request,
        "asked_ms_ago": None if outlook.asked_at is None else round((now - outlook.asked_at) * 1000, 1),
        "thinking": outlook.request is not None,
        "actions": [{**_shape(shape_of(planned.action, frame)), "state": state} for planned, state in stated],
    }


def _line(line: LogcatLine) -> dict[str, Any]:
    text = redact(line.text)[:LOG_TEXT]
    return {"at_ms": int(float(line.at) * 1000), "level": line.level, "tag": redact(line.tag)[:80], "text": text}
