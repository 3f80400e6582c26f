"""The file of `corral assistant serve` and `corral ask --config`: TOML → `AssistantConfig`, every mistake at once.

Nothing is opened here but the file itself and those that must be there; names in it are relative to its folder.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from actors.analyst_limits import AssistantLimits
from actors.assistant_caches import CacheConfig
from actors.configuration import Problem, ScenarioError, line_of, read_toml, structured
from actors.listen_config import ListenConfig, TokensFile, listen_problems
from inference.config import EngineConfig, TenantConfig, check_engine, check_tenant
from runtime.ids import TenantId
from sqlassist.ports import PipelineSettings

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")


@attrs.frozen
class SqlFile:
    """`[sql]`."""

    file: str = attrs.field(metadata={"nonempty": True})
    """The configuration of databases, as `corral sql` takes it."""


@attrs.frozen
class StateConfig:
    """`[state]`."""

    folder: str = attrs.field(default="assistant", metadata={"nonempty": True})
    """Audit trail, verified queries and histories; made with mode 0700."""


@attrs.frozen
class Prices:
    """`[prices]`: what tokens cost, per million of them."""

    input: float = attrs.field(default=0.0, metadata={"min": 0})
    cached: float = attrs.field(default=0.0, metadata={"min": 0})
    """Of input that an engine knew already."""
    output: float = attrs.field(default=0.0, metadata={"min": 0})
    currency: str = "USD"

    def cost(self, tokens: Mapping[str, int]) -> float:
        """Of one question."""
        cached = tokens.get("cached", 0)
        fresh = tokens.get("input", 0) - cached
        return (fresh * self.input + cached * self.cached + tokens.get("output", 0) * self.output) / 1e6


@attrs.frozen
class AssistantConfig:
    """The whole file. After `load_assistant_config` every path in it is absolute."""

    sql: SqlFile
    listen: ListenConfig = attrs.field(factory=ListenConfig)
    tokens: TokensFile = attrs.field(factory=TokensFile)
    state: StateConfig = attrs.field(factory=StateConfig)
    engine: str = attrs.field(default="", metadata={"pattern": "(none)?", "means": '"none", or left out'})
    """`none` says what leaving out `[[engines]]` says too."""
    engines: tuple[EngineConfig, ...] = ()
    """Where models are, the smallest first. Without any, only what needs no model is answered."""
    tenants: Mapping[str, TenantConfig] = attrs.field(factory=dict)
    """Weight, tokens a minute and adapter; whoever is not named has no limit."""
    limits: AssistantLimits = attrs.field(factory=AssistantLimits)
    pipeline: PipelineSettings = attrs.field(factory=PipelineSettings)
    caches: CacheConfig = attrs.field(factory=CacheConfig)
    prices: Prices = attrs.field(factory=Prices)

    def tenant_limits(self) -> dict[TenantId, TenantConfig]:
        """By tenant, for metering."""
        return {TenantId(name): config for name, config in self.tenants.items()}


def parse_assistant_config(source: bytes, file: str) -> AssistantConfig:
    """Read a configuration; paths stay as they are written.

    Raises:
        ScenarioError: with every mistake, each with its file, line and key path.
    """
    config, problems = structured(read_toml(source, file), AssistantConfig, source=source, file=file)
    if config is not None:
        lines = source.decode("utf-8-sig").splitlines()
        problems = [Problem(text, path, file, line_of(lines, path)) for text, path in _problems(config)]
        if not problems:
            return config
    raise ScenarioError(problems)


def load_assistant_config(path: Path) -> AssistantConfig:
    """As `parse_assistant_config`, of a file. The databases' file and the certificate are there.

    Raises:
        ScenarioError: it cannot be read, or is wrong.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror}", "$", str(path))]) from error
    config = parse_assistant_config(source, str(path))
    folder = path.parent.absolute()

    def beside(name: str) -> str:
        return str(folder / name)

    listen = attrs.evolve(
        config.listen,
        tls_certificate=None if config.listen.tls_certificate is None else beside(config.listen.tls_certificate),
        tls_key=None if config.listen.tls_key is None else beside(config.listen.tls_key),
    )
    config = attrs.evolve(
        config,
        sql=SqlFile(beside(config.sql.file)),
        listen=listen,
        tokens=TokensFile(beside(config.tokens.file)),
        state=StateConfig(beside(config.state.folder)),
    )
    needed = {"$.sql.file": config.sql.file, "$.listen.tls_certificate": listen.tls_certificate}
    needed["$.listen.tls_key"] = listen.tls_key
    lines = source.decode("utf-8-sig").splitlines()
    missing = [
        Problem(f"there is no file {name}", at, str(path), line_of(lines, at))
        for at, name in needed.items()
        if name is not None and not Path(name).is_file()
    ]
    if missing:
        raise ScenarioError(missing)
    return config


def _problems(config: AssistantConfig) -> Iterator[tuple[str, str]]:
    listen = config.listen
    yield from listen_problems(listen)
    for index, origin in enumerate(listen.origins):
        if not _ORIGIN.fullmatch(origin):
            yield f"{origin!r} must be like https://farm.example, without a path", f"$.listen.origins[{index}]"
    if config.engine and config.engines:
        yield 'engine = "none" contradicts [[engines]]', "$.engine"
    ids = [engine.id for engine in config.engines]
    for index, engine in enumerate(config.engines):
        for problem in check_engine(engine):
            yield problem, f"$.engines[{index}]"
        if engine.launch is not None:
            yield "the assistant starts no engines: start it apart, and give its url", f"$.engines[{index}].launch"
        if engine.id in ids[:index]:
            yield f"there are two engines {engine.id!r}", f"$.engines[{index}].id"
    for name, tenant in config.tenants.items():
        for problem in check_tenant(TenantId(name), tenant):
            yield problem, f"$.tenants.{name}"
