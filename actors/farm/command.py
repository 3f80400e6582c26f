"""The command line of one attempt: `corral run` with the phones that were reserved and the farm's engines. Pure."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from actors.configuration import read_toml
from actors.farm.config import FarmConfig
from actors.scenario import parse_scenario
from runtime.ids import TenantId


class PhonesDiffer(Exception):
    """The scenario has changed since it was submitted: it needs another number of phones than were reserved."""


def overrides_for(source: bytes, config: FarmConfig, *, tenant: TenantId, phones: Sequence[str]) -> dict[str, str]:
    """What is said instead of the scenario: key path → TOML value, as `corral run --set` takes it.

    Args:
        source: The scenario, which has no mistakes.
        config: The farm.
        tenant: Whose run it is.
        phones: Those reserved for it, of the farm's.

    Raises:
        ScenarioError: it has mistakes by now.
        PhonesDiffer: there are not as many phones as it has.
    """
    engines = engine_overrides(config)
    scenario = parse_scenario(source, "", engines)
    tables = read_toml(source)["phones"]
    wanted = sum(group.phone_count for group in scenario.phones)
    if wanted != len(phones):
        raise PhonesDiffer(f"scenario {scenario.name!r} needs {wanted} phones, and {len(phones)} were reserved for it")
    left = list(phones)
    groups: list[dict[str, Any]] = []
    for group, table in zip(scenario.phones, tables, strict=True):
        mine, left = left[: group.phone_count], left[group.phone_count :]
        groups += _groups_for(table, mine, config)
    return {"tenant": toml_value(tenant), "phones": toml_value(groups), **engines}


def engine_overrides(config: FarmConfig) -> dict[str, str]:
    """What is said of engines and tenants instead of any scenario; nothing where a farm has neither."""
    overrides = {}
    if config.engines:
        overrides["engines"] = toml_value([_plain(engine) for engine in config.engines])
    if config.tenants:
        overrides["tenants"] = toml_value({name: _plain(one) for name, one in config.tenants.items()})
    return overrides


def run_command(
    program: Sequence[str],
    file: Path,
    *,
    out: Path,
    run_id: str,
    overrides: Mapping[str, str],
    vendor: str | None,
    door: Path | None = None,
) -> tuple[str, ...]:
    """The whole command line."""
    settings = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    farm = ("--farm", vendor) if vendor is not None else ()
    engines = ("--engines-door", str(door)) if door is not None else ()
    return (*program, "run", str(file), "--out", str(out), "--run-id", run_id, "--headless", *farm, *engines, *settings)


def toml_value(value: Any) -> str:
    """A value as TOML on one line; of texts, numbers, booleans, lists and tables."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_value(str(key))} = {toml_value(one)}" for key, one in value.items()) + "}"
    return "[" + ", ".join(toml_value(one) for one in value) + "]"


def _groups_for(table: Mapping[str, Any], phones: Sequence[str], config: FarmConfig) -> list[dict[str, Any]]:
    """One group of the scenario on phones of the farm: up to one group of each kind."""
    addresses = [phone for phone in phones if not config.is_simulated(phone)]
    simulated = len(phones) - len(addresses)
    made: list[dict[str, Any]] = []
    if addresses:
        made.append({**_kept(table, "adb"), "kind": "adb", "addresses": addresses})
    if simulated:
        kept = _kept(table, "simulated")
        if addresses:
            kept.pop("faults", None)  # they count the phones of the whole group
        made.append({**kept, "kind": "simulated", "count": simulated})
    return made


def _kept(table: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a group says that is still of use on phones of that kind."""
    return {key: value for key, value in table.items() if table["kind"] == kind or key in ("app", "bot")}


def _plain(value: Any) -> dict[str, Any]:
    """An attrs value as a table without what is at its default; None has no form in TOML."""

    def differs(field: "attrs.Attribute[Any]", given: Any) -> bool:
        return given is not None and given != field.default

    return attrs.asdict(value, filter=differs)
