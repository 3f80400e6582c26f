from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.configuration import ScenarioError
from actors.farm.config import parse_farm_config
from actors.farm.daemon import open_farm
from actors.farm.records import AttemptRecord
from actors.farm.telling import attempt_notice, engine_notices, phone_notices, run_telling, webhook_for
from actors.farm.work import AttemptOutcome
from actors.notices import Notice, Severity, WebhookForm
from inference.config import EngineConfig
from runtime.ids import EngineId, TenantId
from runtime.secret import SecretMissing
from tests.kit.farm import PROGRAM, farm_config, submit, wait_over, wait_playing, write_scenario

ATTEMPT = AttemptRecord("r1-a1", "r1", TenantId("games"), 1, ("P0",), AttemptOutcome.FAILED, 1.0, "score 1 of 4")


@attrs.define(eq=False)
class Heard:
    """Takes what a sender would send."""

    notices: list[Notice] = attrs.field(factory=list)
    overs: list[str] = attrs.field(factory=list)

    def tell(self, notice: Notice) -> None:
        self.notices.append(notice)

    def over(self, key: str) -> None:
        self.overs.append(key)


def test_what_failed_is_told_and_what_an_operator_ended_is_not() -> None:
    failed = attempt_notice(ATTEMPT)
    assert failed is not None
    assert (failed.severity, failed.text) == (Severity.WARNING, "score 1 of 4")
    errored = attempt_notice(attrs.evolve(ATTEMPT, outcome=AttemptOutcome.ERRORED))
    assert errored is not None
    assert errored.severity is Severity.CRITICAL
    for outcome in (
        AttemptOutcome.SUCCEEDED,
        AttemptOutcome.CANCELLED,
        AttemptOutcome.PAUSED,
        AttemptOutcome.INTERRUPTED,
    ):
        assert attempt_notice(attrs.evolve(ATTEMPT, outcome=outcome)) is None


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"phone": "P1", "state": "needs_human", "why": "captcha"}, "needs-human:r1:P1"),
        ({"phone": "P1", "state": "quarantined"}, "phone:P1"),
        ({"phone": "P1", "state": "episode", "connection": "offline"}, "phone:P1"),
        ({"phone": "P1", "state": "episode", "connection": "ready"}, None),
        ({}, None),
    ],
)
def test_phones_that_need_somebody_are_told(row: dict[str, Any], key: str | None) -> None:
    assert [one.key for one in phone_notices("r1", [row])] == ([] if key is None else [key])


ENGINE: dict[str, Any] = {
    "engine": "e0",
    "model": "m",
    "state": "up",
    "reason": "",
    "unfit": None,
    "kv_usage": 0.5,
    "tpot_ms": 12.0,
    "floor_ms": 10.0,
}


@pytest.mark.parametrize(
    ("change", "keys", "says"),
    [
        ({}, [], ""),
        ({"kv_usage": None, "tpot_ms": None, "floor_ms": None}, [], ""),
        ({"state": "down", "reason": "exit code 137"}, ["engine:e0"], "exit code 137"),
        ({"state": "unfit", "unfit": "its card throttles"}, ["engine:e0"], "throttles"),
        ({"state": "starting"}, [], ""),
        ({"kv_usage": 0.93}, ["kv:e0"], "93%"),
        ({"tpot_ms": 100.0}, ["knee:e0"], "100.0 ms"),
        ({"state": "down", "kv_usage": 0.95, "tpot_ms": 90.0}, ["engine:e0", "kv:e0", "knee:e0"], "does not answer"),
    ],
)
def test_engines_in_trouble_are_told(change: dict[str, Any], keys: list[str], says: str) -> None:
    notices = list(engine_notices([{**ENGINE, **change}]))
    assert [notice.key for notice in notices] == keys
    assert all("e0" in notice.title for notice in notices)
    assert says in "".join(notice.text for notice in notices)


async def test_an_engine_that_stays_down_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.farm.telling.LOOK_SECONDS", 0.02)
    gone = EngineConfig(EngineId("e0"), url="http://127.0.0.1:9", probe_every_seconds=0.1)
    heard = Heard()
    config = attrs.evolve(farm_config(tmp_path), engines=(gone,))
    async with open_farm(config, program=PROGRAM) as farm, trio.open_nursery() as nursery:
        nursery.start_soon(partial(run_telling, farm, heard))  # type: ignore[arg-type]
        with trio.fail_after(30):
            while not heard.notices:
                await trio.sleep(0.01)
        assert {notice.key for notice in heard.notices} == {"engine:e0"}
        nursery.cancel_scope.cancel()


async def test_a_failed_run_of_a_real_farm_is_told_once(tmp_path: Path) -> None:
    write_scenario(tmp_path, "bad", "code=1")
    write_scenario(tmp_path, "good")
    told: list[AttemptRecord] = []
    async with open_farm(farm_config(tmp_path), program=PROGRAM, tell=told.append) as farm:
        for name in ("bad", "good"):
            record = await submit(farm, name)
            await wait_over(farm, record.run)

    assert [attempt_notice(one) is not None for one in told] == [True, False]
    assert told[0].outcome is AttemptOutcome.FAILED


async def test_what_is_over_may_be_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.farm.telling.LOOK_SECONDS", 0.02)
    write_scenario(tmp_path, "long", "seconds=30")
    heard = Heard()
    rows: list[dict[str, Any]] = [{"phone": "P0", "state": "needs_human", "why": "captcha"}]
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm, trio.open_nursery() as nursery:
        record = await submit(farm, "long")
        await wait_playing(farm, record.run)

        async def progress(_: str) -> list[dict[str, Any]]:
            return rows

        monkeypatch.setattr(type(farm), "progress", lambda _, run: progress(run))
        nursery.start_soon(partial(run_telling, farm, heard))  # type: ignore[arg-type]
        with trio.fail_after(30):
            while not heard.notices:
                await trio.sleep(0.01)
            rows.clear()
            while not heard.overs:
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()

    assert heard.notices[0].severity is Severity.CRITICAL
    assert heard.overs == [f"needs-human:{record.run}:P0"]


def test_receivers_are_configured_with_names_of_variables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
[[phones]]
kind = "adb"
name = "lab"
addresses = ["10.0.0.1:5555"]
[[webhooks]]
name = "ops"
form = "feishu"
url_env = "OPS_URL"
secret_env = "OPS_SECRET"
"""
    (one,) = parse_farm_config(text.encode()).webhooks
    assert (one.form, one.least) == (WebhookForm.FEISHU, Severity.WARNING)
    with pytest.raises(SecretMissing, match="OPS_"):
        webhook_for(one)
    monkeypatch.setenv("OPS_URL", "http://127.0.0.1:9/private")
    monkeypatch.setenv("OPS_SECRET", "hush")
    webhook = webhook_for(one)
    assert "hush" not in repr(webhook)
    assert "private" not in repr(webhook)

    with pytest.raises(ScenarioError) as caught:
        parse_farm_config(text.replace("feishu", "feishuu").replace("OPS_URL", "http://x").encode())
    assert len(caught.value.problems) == 2
