"""What an operator says about an engine."""

from enum import StrEnum
from urllib.parse import urlsplit

import attrs

from runtime.ids import EngineId, is_legal_id


class Dialect(StrEnum):
    """Which extensions of the OpenAI protocol an engine speaks; decides how a constraint is sent."""

    SGLANG = "sglang"
    """Top-level `regex`, `ebnf`, `rid`, `cache_salt`; `/abort_request`, `/v1/loads`. The rehearsal engine too."""
    VLLM = "vllm"
    """`structured_outputs`, `cache_salt`; a closed connection aborts."""
    LLAMACPP = "llamacpp"
    """`grammar` (GBNF) or `json_schema`."""
    OPENAI = "openai"
    """Nothing but `response_format`."""


class LaunchKind(StrEnum):
    """What sort of engine process is started."""

    REHEARSAL = "rehearsal"
    """The bundled stand-in; `args` are added to its command line, and it chooses its own port."""
    SGLANG = "sglang"
    VLLM = "vllm"
    LLAMACPP = "llamacpp"
    COMMAND = "command"
    """Any server. For this and the three above, `args` is the whole command line, and `url` says where it answers."""


@attrs.frozen
class LaunchConfig:
    """An engine that we start and stop ourselves."""

    kind: LaunchKind = LaunchKind.REHEARSAL
    args: tuple[str, ...] = ()
    environment: dict[str, str] = attrs.field(factory=dict)
    """Added to our own environment."""
    start_seconds: float = 600.0
    """Until it must be ready; loading weights takes minutes."""
    stop_grace_seconds: float = 20.0
    """From SIGTERM to SIGKILL. SGLang's children need 10 to 40 s to leave, but hold nothing worth the wait."""


@attrs.frozen
class EngineConfig:
    """One engine."""

    id: EngineId
    url: str | None = None
    """`http://host:port`, without a path. Optional for an engine that says where it listens (rehearsal)."""
    launch: LaunchConfig | None = None
    """None: somebody else runs it."""
    model: str = "rehearsal"
    """Name that the engine serves the model under."""
    dialect: Dialect = Dialect.SGLANG
    api_key_env: str | None = None
    """Environment variable that holds the key; the key itself stands in no file."""
    gpu: int | None = None
    """Index of the GPU that a launched engine sees; None: all."""
    max_in_flight: int = 16
    """Requests at the engine at a time; more wait in front of it."""
    max_waiting: int = 64
    """Requests that may wait in front of it; more are refused as `Overloaded`."""
    connect_seconds: float = 2.0
    total_seconds: float = 120.0
    """No request lasts longer, whatever its caller's deadline."""
    abort_seconds: float = 0.5
    """Bounds the wait for the engine to confirm an abort."""
    probe_every_seconds: float = 2.0
    probe_seconds: float = 2.0
    """Bounds one health probe."""
    silent_seconds: float = 2.0
    """A request that ran into its deadline speaks against the engine's health if no token came for so long."""


def check_engine(config: EngineConfig) -> list[str]:
    """Everything that is wrong with an engine's configuration, as `key: what is wrong`."""
    problems = []
    if not is_legal_id(config.id):
        problems.append(f"id: {config.id!r} must be made of letters, digits, dot, dash and underscore")
    if config.url is None and (config.launch is None or config.launch.kind is not LaunchKind.REHEARSAL):
        problems.append("url: it is needed, as nothing else says where the engine answers")
    if config.url is not None:
        problems.extend(_check_url(config.url))
    if config.launch is not None and config.launch.kind is not LaunchKind.REHEARSAL and not config.launch.args:
        problems.append(f"launch.args: a {config.launch.kind} engine needs its whole command line")
    if config.gpu is not None and config.gpu < 0:
        problems.append(f"gpu: it must be 0 or more, not {config.gpu}")
    if config.max_in_flight < 1:
        problems.append(f"max_in_flight: it must be 1 or more, not {config.max_in_flight}")
    if config.max_waiting < 0:
        problems.append(f"max_waiting: it must be 0 or more, not {config.max_waiting}")
    seconds = [field.name for field in attrs.fields(EngineConfig) if field.name.endswith("_seconds")]
    problems.extend(f"{name}: it must be more than 0" for name in seconds if not getattr(config, name) > 0)
    if config.launch is not None:
        limits = {"start_seconds": config.launch.start_seconds, "stop_grace_seconds": config.launch.stop_grace_seconds}
        problems.extend(f"launch.{name}: it must be more than 0" for name, value in limits.items() if not value > 0)
    return problems


def _check_url(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return [f"url: {url!r} cannot be read: {error}"]
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return [f"url: {url!r} must be like http://127.0.0.1:30000"]
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        return [f"url: {url!r} must end after the port; the paths are known"]
    if parts.username or parts.password:
        return ["url: it must not hold a password; name the key's variable in api_key_env"]
    return []
