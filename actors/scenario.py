"""A scenario: the rooms' configurations together, read from one TOML file with every mistake at once."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from actors.configuration import (
    Problem,
    ScenarioError,
    line_of,
    read_toml,
    register_tagged_union,
    structured,
    without,
)
from actors.devices.base import CaptureMethod, Driver
from actors.engine_checks import launch_problems, shared_cards
from actors.rehearsal.phone.faults import Fault, fault_problems, faults_between
from actors.rehearsal.phone.spec import MAX_SIDE, MIN_SIDE
from actors.setup_config import AccountConfig, SetupConfig, TeardownConfig, account_problems, setup_problems
from actors.vendor_config import SCENARIO_KEYS, scenario_problems
from inference.config import EngineConfig, TenantConfig, check_engine, check_tenant
from inference.profile import ModelProfile
from policies.criteria import Criteria
from policies.effect import EffectSettings
from policies.human import HumanSettings, Resume
from policies.overlap import OverlapSettings
from policies.reflex import Condition, Rule
from policies.staleness import StalenessRule, StalenessSettings
from policies.step import EpisodeSettings, Limits
from runtime.ids import DEFAULT_TENANT, TenantId, is_legal_id

_SIZE = r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}"


@attrs.frozen
class ProbeReading:
    """`kind = "probe"`: the value of a probe of the rule file, read from pixels on every frame."""

    probe: str


@attrs.frozen
class LogcatReading:
    """`kind = "logcat"`: the first group of a regular expression over log lines, `tag: text`."""

    pattern: str


@attrs.frozen
class CommandReading:
    """`kind = "command"`: the first group of a regular expression over the output of a command on the phone."""

    command: str
    pattern: str
    every_seconds: float = attrs.field(default=2.0, metadata={"above": 0})


@attrs.frozen
class HttpReading:
    """`kind = "http"`: the first group of a regular expression over the body of a GET; `{phone}` is filled in."""

    url: str = attrs.field(metadata={"pattern": r"https?://.+", "means": "an http or https address"})
    pattern: str = ""
    every_seconds: float = attrs.field(default=2.0, metadata={"above": 0})


Reading = ProbeReading | LogcatReading | CommandReading | HttpReading
register_tagged_union(
    Reading, {"probe": ProbeReading, "logcat": LogcatReading, "command": CommandReading, "http": HttpReading}
)


@attrs.frozen
class PlannerConfig:
    """System 2: which model is asked, and how its plans are executed."""

    enabled: bool = True
    """False: reflexes only."""
    profile: str = "compact"
    """A bundled profile's name, or a profile file beside the scenario (`*.toml`)."""
    overlap: bool = True
    """Think while acting; false: think only when there is nothing left to do."""
    act_seconds: float = attrs.field(default=0.25, metadata={"min": 0.01, "max": 60})
    """Planned actions are at least this far apart."""
    staleness: StalenessRule = StalenessRule.VERIFIED
    max_age_seconds: float = attrs.field(default=2.0, metadata={"above": 0})
    timeout_seconds: float = attrs.field(default=10.0, metadata={"above": 0})
    """A plan that takes longer is given up and aborted."""
    effect: EffectSettings = attrs.field(factory=EffectSettings)


@attrs.frozen
class HealthConfig:
    """How the app is watched while it is played."""

    foreground_every_seconds: float = attrs.field(default=5.0, metadata={"min": 0})
    """How often the phone is asked what is in front; 0: never. It costs the phone some 50 ms each time."""
    away_seconds: float = attrs.field(default=10.0, metadata={"above": 0})
    """Something else in front of the app for so long is a result of its own."""


@attrs.frozen
class AppConfig:
    """One app: its goal, its rules, and how its success is read."""

    goal: str = attrs.field(metadata={"nonempty": True})
    package: str = attrs.field(metadata={"pattern": r"[A-Za-z][\w.]*", "means": "an Android package name"})
    activity: str | None = attrs.field(
        default=None, metadata={"pattern": r"[A-Za-z_.][\w.$]*", "means": "the name of an activity, like .Main"}
    )
    rules: str | None = None
    """Rule file beside the scenario."""
    score: Reading | None = None
    goal_reached: Reading | None = None
    """The goal counts as reached when this reads (a probe: hits)."""
    criteria: Criteria = attrs.field(factory=Criteria)
    health: HealthConfig = attrs.field(factory=HealthConfig)
    needed_wait_seconds: float = attrs.field(default=0.0, metadata={"min": 0})
    """Of each planned wait, what the game itself needs (a cooldown, an animation); the rest of it counts as stall."""
    limits: Limits | None = None
    """Instead of the scenario's."""
    planner: PlannerConfig | None = None
    """Instead of the scenario's."""
    setup: SetupConfig | None = None
    """None: the app is stopped and started afresh."""
    teardown: TeardownConfig | None = None
    """None: the app is stopped where there is a setup, else left as it is."""
    needs_human: tuple[Condition, ...] = ()
    """Any one of these (a captcha, a second factor) pauses setup and episode until a person has helped."""
    resume: Resume = Resume.MANUAL
    needs_human_seconds: float = attrs.field(default=3600.0, metadata={"above": 0})
    """The episode fails when nobody has helped for so long."""

    @property
    def human(self) -> HumanSettings:
        """What pauses this app's flows and episodes."""
        return HumanSettings(self.needs_human, self.resume, self.needs_human_seconds)


class BotKind(StrEnum):
    """Who plays."""

    PLANNED = "planned"
    """Rules and a model."""
    RANDOM = "random"
    """The baseline: taps and swipes anywhere. It counts for no exit code; the report compares."""


@attrs.frozen
class SimulatedPhones:
    """`kind = "simulated"`: phones of our own that speak real ADB and show a bundled app."""

    app: str
    count: int = attrs.field(default=1, metadata={"min": 1, "max": 1000})
    bot: BotKind = BotKind.PLANNED
    seed: int | None = attrs.field(default=None, metadata={"min": 0, "max": 2**31 - 1})
    """Of the first phone's app, the others count on; None: after the group before it, from the scenario's seed."""
    capture: CaptureMethod = CaptureMethod.RAW
    """`scrcpy` needs no server file here: simulated phones bring their own."""
    size: str = attrs.field(default="720x1280", metadata={"pattern": _SIZE, "means": "a size like 720x1280"})
    second_size: str | None = attrs.field(default=None, metadata={"pattern": _SIZE, "means": "a size like 720x1280"})
    """Of a second display that shows nothing, as a foldable's cover; without it there is one display."""
    faults: tuple[Fault, ...] = ()
    """What goes wrong with them, and when; `phones` counts this group's from 0."""

    @property
    def phone_count(self) -> int:
        """How many phones these are."""
        return self.count

    @property
    def pixels(self) -> tuple[int, int]:
        """(width, height)."""
        width, height = self.size.split("x")
        return int(width), int(height)


@attrs.frozen
class AdbPhones:
    """`kind = "adb"`: real phones, by serial or host:port."""

    app: str
    addresses: tuple[str, ...] = attrs.field(metadata={"nonempty": True})
    bot: BotKind = BotKind.PLANNED
    capture: CaptureMethod = CaptureMethod.AUTO
    """How pictures are taken; `auto` measures once a model, comparing content too, and remembers."""
    scrcpy_server: str | None = None
    """The server file of scrcpy 2.x to 4.x, beside the scenario or absolute; without it there is no video stream."""
    driver: Driver = Driver.NATIVE

    @property
    def phone_count(self) -> int:
        """How many phones these are."""
        return len(self.addresses)


@attrs.frozen
class ReplayPhones:
    """`kind = "replay"`: recorded pictures as one phone. What is done changes nothing of what comes next."""

    app: str
    source: str = attrs.field(metadata={"nonempty": True})
    """A folder of pictures, one picture, a run folder or an episode's, beside the scenario or absolute."""
    bot: BotKind = BotKind.PLANNED
    every_seconds: float = attrs.field(default=0.2, metadata={"min": 0.001, "max": 3600})
    """Between two pictures."""
    loops: bool = False
    """Begin again after the last, which else stays."""

    @property
    def phone_count(self) -> int:
        """One."""
        return 1


PhoneGroup = SimulatedPhones | AdbPhones | ReplayPhones
register_tagged_union(PhoneGroup, {"simulated": SimulatedPhones, "adb": AdbPhones, "replay": ReplayPhones})


@attrs.frozen
class CaptureConfig:
    """How often and how large phones are looked at."""

    every_seconds: float = attrs.field(default=0.2, metadata={"min": 0.01, "max": 60})
    """Between the starts of two captures of one phone."""
    timeout_seconds: float = attrs.field(default=5.0, metadata={"above": 0})
    """A phone that gives no frame for so long is frozen, whatever adb says."""


@attrs.frozen
class RecordConfig:
    """What a run keeps."""

    pixels: bool = False
    """Every decided frame as PNG, so that a replay can run perception again."""
    frames_every_seconds: float = attrs.field(default=1.0, metadata={"min": 0})
    """Display frames for the filmstrip."""
    warehouse: bool = True
    """Rows of steps, actions, plans and health for questions about many runs: docs/warehouse.md."""
    publish_every_seconds: float = attrs.field(default=300.0, metadata={"min": 0})
    """While a run plays, its rows can be asked about from this often on; 0: when it has ended."""


@attrs.frozen
class Scenario:
    """All that a run is made of."""

    name: str = attrs.field(
        metadata={"pattern": r"[A-Za-z0-9._-]{1,40}", "means": "letters, digits, dot, dash, underscore; up to 40"}
    )
    phones: tuple[PhoneGroup, ...] = attrs.field(metadata={"nonempty": True})
    apps: Mapping[str, AppConfig] = attrs.field(metadata={"nonempty": True})
    engines: tuple[EngineConfig, ...] = ()
    tenants: Mapping[str, TenantConfig] = attrs.field(factory=dict)
    """What each may use of the engines; one that is not named has weight 1 and no limits."""
    description: str = ""
    seed: int = attrs.field(default=1, metadata={"min": 0, "max": 2**31 - 1})
    tenant: TenantId = DEFAULT_TENANT
    episodes_per_phone: int = attrs.field(default=1, metadata={"min": 1})
    limits: Limits = attrs.field(factory=Limits)
    planner: PlannerConfig = attrs.field(factory=PlannerConfig)
    capture: CaptureConfig = attrs.field(factory=CaptureConfig)
    record: RecordConfig = attrs.field(factory=RecordConfig)
    accounts: tuple[AccountConfig, ...] = ()

    @property
    def simulated_count(self) -> int:
        """How many of the phones are simulated."""
        return sum(group.count for group in self.phones if isinstance(group, SimulatedPhones))

    def with_faults(self, faults: Sequence[Fault]) -> "Scenario":
        """The same with more faults, whose `phones` count all simulated phones from 0."""
        groups: list[PhoneGroup] = []
        first = 0
        for group in self.phones:
            if isinstance(group, SimulatedPhones):
                more = faults_between(faults, first, group.count)
                first += group.count
                group = attrs.evolve(group, faults=(*group.faults, *more))
            groups.append(group)
        return attrs.evolve(self, phones=tuple(groups))

    def is_planned(self, app_name: str) -> bool:
        """Some bot asks a model about this app."""
        plays = any(g.app == app_name and g.bot is BotKind.PLANNED for g in self.phones)
        return plays and self.planner_of(self.apps[app_name]).enabled

    def planner_of(self, app: AppConfig) -> PlannerConfig:
        """The app's own planner table, else the scenario's."""
        return app.planner or self.planner


def parse_scenario(source: bytes, file: str = "", overrides: Mapping[str, str] | None = None) -> Scenario:
    """Read a scenario file.

    Args:
        source: The file.
        file: Its name, for messages.
        overrides: `a.b=c` of the command line: key path → TOML value, or a bare word as text.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.
    """
    data = read_toml(source, file)
    problems = [*_apply(data, overrides or {})]
    lines = source.decode("utf-8-sig").splitlines()
    problems += [Problem(message, path, file, line_of(lines, path)) for message, path in scenario_problems(data)]
    data = {key: value for key, value in data.items() if key not in SCENARIO_KEYS}  # told already
    parsed, found = structured(data, Scenario, source=source, file=file)
    problems += found
    told = [problem.path for problem in found]
    # with mistakes in single keys, what the rest of it says is checked as if those keys were not there
    rest = parsed if parsed is not None else structured(without(data, told), Scenario)[0]
    if rest is not None:
        problems += [
            Problem(message, path, file, line_of(lines, path))
            for message, path in cross_problems(rest)
            if not any(one.startswith(path) or path.startswith(one) for one in told)
        ]
    if parsed is None or problems:
        raise ScenarioError(problems)
    return parsed


def _apply(data: dict[str, Any], overrides: Mapping[str, str]) -> list[Problem]:
    problems = []
    for path, text in overrides.items():
        try:
            value = read_toml(f"value = {text}".encode())["value"]
        except ScenarioError:
            value = text
        if not _set(data, path.replace("[", ".").replace("]", "").split("."), value):
            problems.append(Problem(f"--set {path}={text} names nothing that can be set", f"$.{path}"))
    return problems


def _set(data: dict[str, Any], keys: list[str], value: Any) -> bool:
    """Set a value in nested tables and lists; tables on the way are made, list elements must be there."""
    place: Any = data
    for position, key in enumerate(keys):
        is_last = position == len(keys) - 1
        if isinstance(place, dict):
            if is_last:
                place[key] = value
                return True
            place = place.setdefault(key, {})
        elif isinstance(place, list) and key.isdigit() and int(key) < len(place):
            if is_last:
                place[int(key)] = value
                return True
            place = place[int(key)]
        else:
            return False
    return False


def _phone_problems(scenario: Scenario) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for index, group in enumerate(scenario.phones):
        if group.app not in scenario.apps:
            known = ", ".join(sorted(scenario.apps))
            found.append((f"there is no app {group.app!r}; apps are {known}", f"$.phones[{index}].app"))
        if isinstance(group, SimulatedPhones) and not all(MIN_SIDE <= side <= MAX_SIDE for side in group.pixels):
            message = f"'size' must have sides of {MIN_SIDE} to {MAX_SIDE} pixels: {group.size!r}"
            found.append((message, f"$.phones[{index}].size"))
        if isinstance(group, SimulatedPhones):
            found += fault_problems(group.faults, count=group.count, at=f"$.phones[{index}].faults")
        if isinstance(group, AdbPhones):
            found += _capture_problems(group, f"$.phones[{index}]")
            doubled = sorted({a for a in group.addresses if group.addresses.count(a) > 1})
            found += [(f"address {a!r} stands twice", f"$.phones[{index}].addresses") for a in doubled]
    return found


def _capture_problems(group: AdbPhones, at: str) -> list[tuple[str, str]]:
    found = []
    if group.capture is CaptureMethod.SCRCPY and group.scrcpy_server is None:
        found.append(("capture by scrcpy needs its server file: scrcpy_server = PATH", f"{at}.capture"))
    if group.scrcpy_server is not None and group.capture not in (CaptureMethod.SCRCPY, CaptureMethod.AUTO):
        message = f"'scrcpy_server' is of no use with capture = {group.capture.value!r}"
        found.append((message, f"{at}.scrcpy_server"))
    return found


def cross_problems(scenario: Scenario) -> list[tuple[str, str]]:
    """(message, path) of what no single key shows."""
    found: list[tuple[str, str]] = []
    found += _phone_problems(scenario)
    if not is_legal_id(scenario.name):
        found.append((f"'name' must be usable as a name: {scenario.name!r}", "$.name"))
    if not is_legal_id(scenario.tenant):
        found.append(("'tenant' must be letters, digits, dot, dash, underscore", "$.tenant"))
    ids: set[str] = set()
    for index, engine in enumerate(scenario.engines):
        if engine.id in ids:
            found.append((f"engine id {engine.id!r} stands twice", f"$.engines[{index}].id"))
        ids.add(engine.id)
        for problem in check_engine(engine):
            key, _, message = problem.partition(": ")
            found.append((f"{key!r} {message.removeprefix('it ')}", f"$.engines[{index}].{key}"))
        found += [(why, f"$.engines[{index}].launch") for why in launch_problems(engine)]
    for name, tenant in scenario.tenants.items():
        for problem in check_tenant(TenantId(name), tenant):
            key, colon, message = problem.partition(": ")
            where = f"$.tenants.{name}"
            found.append((f"{key!r} {message.removeprefix('it ')}", f"{where}.{key}") if colon else (problem, where))
    for name, app in scenario.apps.items():
        at = f"$.apps.{name}"
        if scenario.is_planned(name) and not scenario.engines:
            where = f"{at}.planner" if app.planner else "$.planner"
            found.append((f"app {name!r} is planned by a model, but there is no [[engines]]", where))
        for key in ("score", "goal_reached"):
            found += _reading_problems(getattr(app, key), f"{at}.{key}", needs_group=key == "score", app=app)
        if app.criteria.min_score is not None and app.score is None:
            found.append(("'min_score' needs to know how the score is read", f"{at}.criteria.min_score"))
        if app.criteria.goal_reached and app.goal_reached is None:
            found.append(("'goal_reached' needs to know how the goal is read", f"{at}.criteria.goal_reached"))
        found += setup_problems(app.setup, app.teardown, at)
    return found + account_problems(scenario.accounts, account_users(scenario))


def account_users(scenario: Scenario) -> dict[str, list[str]]:
    """Pool → the apps whose setup leases from it."""
    users: dict[str, list[str]] = {}
    for name, app in scenario.apps.items():
        if app.setup is not None and app.setup.accounts is not None:
            users.setdefault(app.setup.accounts, []).append(name)
    return users


def warnings_for(scenario: Scenario) -> list[tuple[str, str]]:
    """(message, path) of what works, but perhaps not as its author thinks."""
    found = []
    for pool, apps in account_users(scenario).items():
        accounts = sum(account.pool == pool for account in scenario.accounts)
        phones = sum(group.phone_count for group in scenario.phones if group.app in apps)
        if phones > accounts:
            waits = min(app.setup.account_wait_seconds for n in apps if (app := scenario.apps[n]).setup is not None)
            message = (
                f"pool {pool!r} has {accounts} accounts for {phones} phones: {accounts} play at a time, the others "
                f"wait for a free account, up to {waits:g} s each"
            )
            found.append((message, "$.accounts"))
    return found + shared_cards(scenario.engines) + _replay_warnings(scenario)


def _replay_warnings(scenario: Scenario) -> list[tuple[str, str]]:
    found = []
    for index, group in enumerate(scenario.phones):
        if isinstance(group, ReplayPhones):
            app = scenario.apps[group.app]
            read = {key: getattr(app, key) for key in ("score", "goal_reached")}
            lost = [key for key, reading in read.items() if isinstance(reading, LogcatReading | CommandReading)]
            message = "is read from the phone, which recorded pictures do not have: there is none on them"
            found += [(f"'{key}' of app {group.app!r} {message}", f"$.phones[{index}]") for key in lost]
    return found


def _reading_problems(reading: Reading | None, at: str, *, needs_group: bool, app: AppConfig) -> list[tuple[str, str]]:
    if reading is None:
        return []
    if isinstance(reading, ProbeReading):
        return [] if app.rules else [(f"probe {reading.probe!r} needs a rule file: rules = PATH", f"{at}.probe")]
    try:
        groups = re.compile(reading.pattern).groups
    except re.error as error:
        return [(f"'pattern' is no regular expression: {error}", f"{at}.pattern")]
    if needs_group and groups < 1:
        return [("'pattern' needs a group for the number, like 'score=([0-9]+)'", f"{at}.pattern")]
    return []


def episode_settings_for(
    scenario: Scenario, app: AppConfig, profile: ModelProfile, rules: tuple[Rule, ...]
) -> EpisodeSettings:
    """What an episode of this app decides by."""
    planner = scenario.planner_of(app)
    return EpisodeSettings(
        goal=app.goal,
        profile=profile,
        rules=rules,
        planner=planner.enabled,
        overlap=OverlapSettings(enabled=planner.overlap, act_seconds=planner.act_seconds),
        staleness=StalenessSettings(rule=planner.staleness, max_age_seconds=planner.max_age_seconds),
        effect=planner.effect,
        limits=app.limits or scenario.limits,
        criteria=app.criteria,
        needed_wait_seconds=app.needed_wait_seconds,
        human=app.human,
    )
