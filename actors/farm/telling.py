"""Whom a farm tells of what: runs that failed, and phones that need a person or are gone, as notices to webhooks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import trio

from actors.farm.daemon import Farm
from actors.farm.database import StoreError
from actors.farm.engine_views import engine_views
from actors.farm.engines import Rollout, RolloutState
from actors.farm.figures import knee_ratio, phone_trouble, tell_engines, tell_phones
from actors.farm.records import AttemptRecord
from actors.farm.webhooks import WebhookConfig
from actors.farm.work import AttemptOutcome
from actors.notice_sender import NoticeSender, Webhook
from actors.notices import Notice, Severity
from runtime.secret import secret_from_environment
from runtime.telemetry import emit

KV_SHARE = 0.9  # as in docs/monitoring/alerts.yml, as the next
BEYOND_KNEE = 1.2
LOOK_SECONDS = 15.0  # a person is asked for within minutes anyway
_FAILED = {
    AttemptOutcome.FAILED: Severity.WARNING,
    AttemptOutcome.ERRORED: Severity.CRITICAL,
    AttemptOutcome.WRONG: Severity.WARNING,
}


def webhook_for(config: WebhookConfig) -> Webhook:
    """A receiver with its secrets.

    Raises:
        SecretMissing: a variable is not set.
    """
    secret = None if config.secret_env is None else secret_from_environment(config.secret_env)
    url = secret_from_environment(config.url_env)
    return Webhook(config.name, config.form, url, secret, config.least, config.again_minutes * 60.0)


def attempt_notice(attempt: AttemptRecord) -> Notice | None:
    """What is told of an attempt that has ended; nothing where all is well, or an operator ended it."""
    severity = _FAILED.get(attempt.outcome)
    if severity is None:
        return None
    fields = (("run", attempt.run), ("attempt", attempt.attempt), ("tenant", str(attempt.tenant)))
    title = f"run {attempt.run} {attempt.outcome}"
    return Notice(f"attempt:{attempt.attempt}", title, severity, attempt.reason, fields)


def rollout_notice(rollout: Rollout) -> Notice:
    """What is told of a change of the engines that has ended."""
    is_bad = rollout.state is RolloutState.ROLLED_BACK
    severity = Severity.CRITICAL if is_bad else Severity.INFO
    title = f"the change of engines was {'rolled back' if is_bad else rollout.state.value}"
    return Notice(f"rollout:{rollout.why}", title, severity, rollout.why)


def phone_notices(run: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Notice]:
    """What is told of the phones of a run that plays."""
    for row in rows:
        phone, state = str(row.get("phone", "")), str(row.get("state", ""))
        fields = (("phone", phone), ("run", run), ("app", str(row.get("app", ""))))
        trouble = phone_trouble(row)
        if trouble == "needs_human":
            why = str(row.get("why", ""))
            title = f"{phone} needs a person"
            text = f"{why}\ncorral farm resume {run} --phone {phone}".strip()
            yield Notice(f"needs-human:{run}:{phone}", title, Severity.CRITICAL, text, fields)
        elif trouble is not None:
            title = f"{phone} is {row.get('connection') or state}"
            yield Notice(f"phone:{phone}", title, Severity.WARNING, str(row.get("remedy", "")), fields)


def engine_notices(views: Sequence[Mapping[str, Any]]) -> Iterator[Notice]:
    """What is told of the engines that all runs share; docs/monitoring.md has the same as alerts."""
    for view in views:
        engine, fields = str(view["engine"]), (("engine", str(view["engine"])), ("model", str(view["model"])))
        ratio, usage = knee_ratio(view), view["kv_usage"]
        if view["state"] in ("down", "unfit"):
            text = str(view["reason"] or view["unfit"] or "it does not answer")
            yield Notice(f"engine:{engine}", f"engine {engine} is {view['state']}", Severity.CRITICAL, text, fields)
        if usage is not None and usage > KV_SHARE:
            text = f"{usage:.0%} of its KV memory is in use: it will throw requests out and compute them again"
            yield Notice(f"kv:{engine}", f"engine {engine} is short of memory", Severity.WARNING, text, fields)
        if ratio is not None and ratio > BEYOND_KNEE:
            text = f"{view['tpot_ms']:.1f} ms an output token, {ratio:.1f} times what it may be at the knee"
            yield Notice(f"knee:{engine}", f"engine {engine} is beyond its knee", Severity.WARNING, text, fields)


async def run_telling(farm: Farm, sender: NoticeSender) -> None:
    """Look at what plays again and again, and tell, the metrics too; until cancelled."""
    known: set[str] = set()
    seen: set[str] = set()
    while True:
        now: set[str] = set()
        rows: list[Mapping[str, Any]] = []
        try:
            playing = await farm.store.do(lambda store: store.under_way())
            for attempt in playing:
                found = await farm.progress(attempt.run)
                rows += found
                for notice in phone_notices(attempt.run, found):
                    now.add(notice.key)
                    sender.tell(notice)
        except StoreError as error:  # the queue tells of it too; what was told before is not over
            emit("actors.farm.look_failed", level="error", error=str(error))
            await trio.sleep(LOOK_SECONDS)
            continue
        tell_phones(rows)
        tell_engines(farm.engines)
        before, seen = seen, set()
        for notice in engine_notices(engine_views(farm.engines, None)):
            seen.add(notice.key)
            if notice.key in before:  # a single look may be a start, or one burst
                now.add(notice.key)
                sender.tell(notice)
        for key in known - now:
            sender.over(key)
        known = now
        await trio.sleep(LOOK_SECONDS)
