"""The file of `corral farm serve`: TOML → `FarmConfig`, every mistake at once. Pure; paths stay as they are written."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from actors.configuration import Problem, ScenarioError, line_of, read_toml, register_tagged_union, structured
from actors.farm.queue import FarmPhone, QueueSettings
from actors.farm.rollout import RolloutConfig
from actors.farm.webhooks import WebhookConfig
from actors.listen_config import ListenConfig, TokensFile, listen_problems
from inference.config import EngineConfig, TenantConfig, check_engine, check_tenant
from runtime.ids import TenantId, is_legal_id

DEFAULT_PORT = 8780
_LABEL = {"pattern": r"[A-Za-z0-9._-]{1,40}", "means": "letters, digits, dot, dash, underscore; up to 40"}


@attrs.frozen
class FarmFolders:
    """`[farm]`."""

    folder: str = attrs.field(default="farm", metadata={"nonempty": True})
    """State, logs and runs; made with mode 0700."""
    scenarios: str = attrs.field(default="scenarios", metadata={"nonempty": True})
    """Its `*.toml` files may be submitted by name."""
    vendor: str | None = None
    """The file of `corral run --farm`: commands that rent, reboot and return cloud phones."""


@attrs.frozen
class FarmListen(ListenConfig):
    """`[listen]`, with a port of the farm's own."""

    port: int = attrs.field(default=DEFAULT_PORT, metadata={"min": 0, "max": 65535})


@attrs.frozen
class AdbPool:
    """`kind = "adb"`: real phones, by serial or host:port."""

    name: str = attrs.field(metadata=_LABEL)
    addresses: tuple[str, ...] = attrs.field(metadata={"nonempty": True})
    labels: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    """Who may use them; empty: everybody."""

    @property
    def phone_ids(self) -> tuple[str, ...]:
        """Their addresses."""
        return self.addresses


@attrs.frozen
class SimulatedPool:
    """`kind = "simulated"`: phones that each run starts for itself, for demos and rehearsals."""

    name: str = attrs.field(metadata=_LABEL)
    count: int = attrs.field(metadata={"min": 1, "max": 1000})
    labels: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()

    @property
    def phone_ids(self) -> tuple[str, ...]:
        """`NAME-0`, `NAME-1`, ..."""
        return tuple(f"{self.name}-{number}" for number in range(self.count))


PhonePool = AdbPool | SimulatedPool
register_tagged_union(PhonePool, {"adb": AdbPool, "simulated": SimulatedPool})


@attrs.frozen
class FarmLimits:
    """`[limits]`."""

    runs: int = attrs.field(default=4, metadata={"min": 1, "max": 256})
    """That play at a time."""
    queued_runs: int = attrs.field(default=1000, metadata={"min": 1, "max": 100_000})
    """Of one tenant, daily ones included; more are refused."""
    drain_seconds: float = attrs.field(default=3600.0, metadata={"min": 0})
    """How long a drain waits for runs to end before it cuts them; they are queued again."""
    stop_seconds: float = attrs.field(default=30.0, metadata={"above": 0, "max": 600})
    """From asking a run to stop until it is killed."""
    attempt_hours: float = attrs.field(default=24.0, metadata={"above": 0})
    """An attempt that plays longer is stopped and counts as failed."""
    failed_logins_per_minute: int = attrs.field(default=20, metadata={"min": 1})
    """Of one address. Behind a proxy that is everybody: let the proxy limit then, and raise this."""
    viewers: int = attrs.field(default=50, metadata={"min": 0, "max": 1000})
    """Connections to the live events at a time; more are refused."""
    body_bytes: int = attrs.field(default=256 << 10, metadata={"min": 1024, "max": 16 << 20})
    """Of one request."""


@attrs.frozen
class RetentionConfig:
    """`[retention]`: of run folders and logs. What became of a run stays in the state for ever."""

    disk_gb: float = attrs.field(default=100.0, metadata={"above": 0})
    """Beyond it the oldest folders go, successes first; pinned ones never."""
    succeeded_days: float = attrs.field(default=14.0, metadata={"above": 0})
    failed_days: float = attrs.field(default=60.0, metadata={"above": 0})
    other_days: float = attrs.field(default=30.0, metadata={"above": 0})
    """Errored, cancelled, and of attempts that were tried again."""


@attrs.frozen
class PricesConfig:
    """`[prices]`."""

    currency: str = attrs.field(default="EUR", metadata={"pattern": "[A-Z]{3}", "means": "like EUR, USD or CNY"})
    phone_minute: float = attrs.field(default=0.0, metadata={"min": 0})
    gpu_hour: float = attrs.field(default=0.0, metadata={"min": 0})
    """Of one engine, however many GPUs it has."""
    input_million: float = attrs.field(default=0.0, metadata={"min": 0})
    """Prompt tokens that were in no cache. Whoever pays for tokens and not for engines leaves `gpu_hour` at 0."""
    cached_million: float = attrs.field(default=0.0, metadata={"min": 0})
    output_million: float = attrs.field(default=0.0, metadata={"min": 0})


@attrs.frozen
class FairnessConfig:
    """`[fairness]`: how phones are shared."""

    window_hours: float = attrs.field(default=24.0, metadata={"above": 0, "max": 24 * 31})
    """What was used before it is forgotten."""
    patience_minutes: float = attrs.field(default=10.0, metadata={"min": 0})
    """A run that was passed for so long claims phones."""
    ageing_minutes: float = attrs.field(default=10.0, metadata={"above": 0})
    """A run's priority grows by one for each such time that it waits."""

    @property
    def settings(self) -> QueueSettings:
        """For the queue."""
        return QueueSettings(self.patience_minutes * 60.0, self.ageing_minutes * 60.0)


@attrs.frozen
class FarmAssistant:
    """`[assistant]`."""

    file: str = attrs.field(metadata={"nonempty": True})
    """As `corral assistant serve` takes it; its `[listen]` and `[tokens]` are not used."""
    share_engines: bool = False
    """Ask the farm's engines instead of those that its file names."""


@attrs.frozen
class FarmConfig:
    """The whole file."""

    phones: tuple[PhonePool, ...] = attrs.field(metadata={"nonempty": True})
    farm: FarmFolders = attrs.field(factory=FarmFolders)
    listen: FarmListen = attrs.field(factory=FarmListen)
    tokens: TokensFile = attrs.field(factory=TokensFile)
    engines: tuple[EngineConfig, ...] = ()
    """Shared by all runs, instead of those that scenarios name; without any, a scenario's own are used."""
    tenants: Mapping[str, TenantConfig] = attrs.field(factory=dict)
    limits: FarmLimits = attrs.field(factory=FarmLimits)
    retention: RetentionConfig = attrs.field(factory=RetentionConfig)
    fairness: FairnessConfig = attrs.field(factory=FairnessConfig)
    rollout: RolloutConfig = attrs.field(factory=RolloutConfig)
    prices: PricesConfig = attrs.field(factory=PricesConfig)
    assistant: FarmAssistant | None = None
    webhooks: tuple[WebhookConfig, ...] = ()
    """Who is told of failed runs, and of phones that need a person or are gone."""

    def farm_phones(self) -> tuple[FarmPhone, ...]:
        """Every phone, for the queue."""
        return tuple(
            FarmPhone(phone, frozenset(pool.labels), frozenset(TenantId(name) for name in pool.tenants))
            for pool in self.phones
            for phone in pool.phone_ids
        )

    def is_simulated(self, phone: str) -> bool:
        """It is of a pool of simulated phones."""
        return any(isinstance(pool, SimulatedPool) and phone in pool.phone_ids for pool in self.phones)

    def weight_of(self, tenant: str) -> float:
        """Whoever is not named has 1."""
        config = self.tenants.get(tenant)
        return 1.0 if config is None else config.weight


def parse_farm_config(source: bytes, file: str = "") -> FarmConfig:
    """Read a configuration.

    Raises:
        ScenarioError: with every mistake, each with its file, line and key path.
    """
    data = read_toml(source, file)
    config, problems = structured(data, FarmConfig, source=source, file=file)
    if config is not None:
        lines = source.decode("utf-8-sig").splitlines()
        problems = [Problem(text, path, file, line_of(lines, path)) for text, path in _problems(config)]
        if not problems:
            return config
    raise ScenarioError(problems)


def restart_needed(old: FarmConfig, new: FarmConfig) -> list[str]:
    """The tables that a reload cannot change while the daemon runs."""
    names = ("farm", "listen", "tokens", "assistant", "webhooks")
    return [name for name in names if getattr(old, name) != getattr(new, name)]


def _problems(config: FarmConfig) -> Iterator[tuple[str, str]]:
    yield from listen_problems(config.listen)
    seen: dict[str, str] = {}
    for index, pool in enumerate(config.phones):
        at = f"$.phones[{index}]"
        for phone in pool.phone_ids:
            if phone in seen:
                yield f"phone {phone!r} stands in pool {seen[phone]!r} already", at
            elif not phone.strip() or "/" in phone or not phone.isprintable():
                yield f"{phone!r} is no serial and no address", at
            seen[phone] = pool.name
        for key in ("labels", "tenants"):
            yield from ((f"{name!r} is not a legal name", f"{at}.{key}") for name in _illegal(getattr(pool, key)))
    ids = [engine.id for engine in config.engines]
    for index, engine in enumerate(config.engines):
        for problem in check_engine(engine):
            yield problem, f"$.engines[{index}]"
        if engine.id in ids[:index]:
            yield f"there are two engines {engine.id!r}", f"$.engines[{index}].id"
    for name, tenant in config.tenants.items():
        for problem in check_tenant(TenantId(name), tenant):
            yield problem, f"$.tenants.{name}"

    if config.assistant is not None and config.assistant.share_engines and not config.engines:
        yield "the farm has no engines that could be shared: add [[engines]]", "$.assistant.share_engines"


def _illegal(names: Any) -> list[str]:
    return [name for name in names if not is_legal_id(name)]
