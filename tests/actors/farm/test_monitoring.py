"""The dashboard and the alerts name what the program really tells; and what is told of phones, engines and the disk."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from actors.farm.config import RetentionConfig
from actors.farm.daemon import open_farm
from actors.farm.figures import ENGINE_STATES, SEEN_STATES, tell_folders, tell_phones
from actors.farm.housekeeping import retain
from actors.farm.work import AttemptOutcome
from runtime import telemetry
from tests.kit.farm import PROGRAM, farm_config, open_served, submit, wait_over, write_scenario

FOLDER = Path(__file__).parents[3] / "docs" / "monitoring"
for name in ("actors.farm.serve", "actors.assistant", "actors.question_metering", "inference.pool"):
    import_module(name)

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SELECTOR = re.compile(r"([a-z_:][a-z0-9_:]*)?\{([^{}]*)\}")
GROUPING = re.compile(r"\b(by|without|on|ignoring)\s*\(([^()]*)\)")
WORD = re.compile(r"(?<![\w$.])[a-z_:][a-z0-9_:]*\b(?!\s*\()")
WORDS = {"and", "or", "unless", "offset", "bool", "by", "without", "on", "ignoring", "group_left", "group_right"}
OF_PROMETHEUS = {"job", "instance", "le"}
VALUES = {
    ("actors_farm_phones", "state"): {"all", "busy", "paused", *SEEN_STATES},
    ("actors_farm_engines", "state"): set(ENGINE_STATES),
    ("actors_farm_ended_tasks_total", "outcome"): {one.value for one in AttemptOutcome},
    ("actors_farm_rollout_tasks_total", "outcome"): {"done", "rolled_back", "stopped"},
}


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """What each shows beside its labels: (query, text that may name labels)."""
    for rule in alerts():
        yield rule["expr"], json.dumps(rule["annotations"])
    for panel in panels():
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def registered(name: str) -> Any:
    """The metric that a series is of."""
    base = re.sub("_(bucket|sum|count)$", "", name)
    return telemetry._metrics.get(name) or telemetry._metrics.get(base)


@pytest.mark.parametrize(("query", "text"), list(expressions()))
def test_every_metric_and_label_is_registered(query: str, text: str) -> None:
    labels: set[str] = set()
    names: set[str] = set()
    for name, inside in SELECTOR.findall(query):
        for label, value in re.findall(r'(\w+)\s*=~?\s*"([^"]*)"', inside):
            known = VALUES.get((name, label))
            assert known is None or value in known, (name, label, value)
            labels.add(label)
    for _, inside in GROUPING.findall(query):
        labels |= {label.strip() for label in inside.split(",")}
    bare = GROUPING.sub(" ", SELECTOR.sub(lambda found: f" {found[1] or ''} ", STRING.sub('""', query)))
    bare = re.sub(r"\[[^\]]*\]", " ", bare)
    names = set(WORD.findall(bare)) - WORDS
    assert names, query
    known_labels = set(OF_PROMETHEUS)
    for name in names - {"up"}:
        metric = registered(name)
        assert metric is not None, f"{name} is in no module"
        known_labels |= set(metric._labelnames)
    labels |= set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text)) - {"value"}
    assert labels <= known_labels, (query, labels - known_labels)


def test_every_alert_says_what_to_do_and_the_manual_knows_it() -> None:
    manual = (FOLDER.parent / "monitoring.md").read_text()
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names)) >= 10
    for rule in alerts():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "action"}
        assert f"`{rule['alert']}`" in manual
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))


def told() -> str:
    return telemetry.render_metrics().decode()


def test_phones_are_told_as_their_runs_see_them() -> None:
    tell_phones(
        [
            {"phone": "a", "state": "needs_human", "connection": "offline"},
            {"phone": "b", "state": "episode", "connection": "offline"},
            {"phone": "c", "state": "quarantined"},
            {"phone": "d", "state": "episode", "connection": "ready"},
        ]
    )
    shown = told()
    tell_phones([])

    for state, count in (("needs_human", 1), ("offline", 2), ("playing", 1)):
        assert f'actors_farm_phones{{state="{state}"}} {count}.0' in shown
        assert f'actors_farm_phones{{state="{state}"}} 0.0' in told()


async def test_what_folders_take_is_told(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_farm(farm_config(tmp_path), program=PROGRAM) as farm:
        record = await submit(farm, "good")
        await wait_over(farm, record.run)
        tell_folders(0, 0)
        await retain(RetentionConfig(disk_gb=2.0), farm.folder, farm.store, farm.findings, farm.clock())
        kept = float(re.findall(r"^actors_farm_folders_bytes (.*)$", told(), re.MULTILINE)[0])

    assert kept > 0
    assert "actors_farm_folders_budget_bytes 2e+09" in told()


async def test_only_admins_are_told_of_tenants(tmp_path: Path) -> None:
    telemetry.counter("inference_tenant_output_tokens_total", "Tokens of answers.", ["workload", "tenant"]).labels(
        "plan", "games"
    ).inc()
    async with open_served(farm_config(tmp_path)) as served:
        seen = (await served.call("other.operator", "GET", "/metrics")).body
        all_of_it = (await served.call("other.admin", "GET", "/metrics")).body

    assert b'tenant="games"' in all_of_it
    assert b"games" not in seen
    assert b"actors_farm_playing_tasks" in seen
