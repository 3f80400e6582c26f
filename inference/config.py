"""What an operator says about an engine."""

import math
from enum import StrEnum
from urllib.parse import urlsplit

import attrs

from runtime.ids import EngineId, TenantId, is_legal_id


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


class Concurrency(StrEnum):
    """How many requests are kept at an engine at a time."""

    FIXED = "fixed"
    """`max_in_flight`, less only while its KV memory is nearly full."""
    KNEE = "knee"
    """As many as make a token take 1.25 times as long as alone (`inference.knee`); `max_in_flight` is the bound."""


class LaunchKind(StrEnum):
    """What sort of engine process is started."""

    REHEARSAL = "rehearsal"
    """The bundled stand-in; `args` are added to its command line, and it chooses its own port."""
    SGLANG = "sglang"
    VLLM = "vllm"
    LLAMACPP = "llamacpp"
    COMMAND = "command"
    """Any server. For this and llamacpp, `args` is the whole command line, and `url` says where it answers."""


@attrs.frozen
class LaunchConfig:
    """An engine that we start and stop ourselves.

    With `model_path`, the command line is made of a bundled launch profile (`inference.launch_profile`) and `args` come
    after its flags; without it, `args` is the whole command line and `url` says where the engine answers.
    """

    kind: LaunchKind = LaunchKind.REHEARSAL
    args: tuple[str, ...] = ()
    environment: dict[str, str] = attrs.field(factory=dict)
    """Added to our own environment, and to the profile's."""
    start_seconds: float = 600.0
    """Until it must be ready, at each rung of its ladder; loading weights takes minutes."""
    stop_grace_seconds: float = 20.0
    """From SIGTERM to SIGKILL. SGLang's children need 10 to 40 s to leave, but hold nothing worth the wait."""
    profile: str | None = None
    """Name of a bundled launch profile, such as `sglang-5090`; None: the plain one of `kind`."""
    model_path: str | None = None
    """Directory of the weights, or the name that the engine fetches them by."""
    executable: tuple[str, ...] = ()
    """Starts the engine's server instead of the profile's command: `["/opt/sglang/bin/python", "-m", ...]`."""
    prefix: tuple[str, ...] = ()
    """Comes before everything, as `["docker", "run", "--rm", "--network=host", "{environment}", "IMAGE"]`.

    Filled in: `{id}`, `{port}`, `{gpu}`, `{key_file}`; an element `{environment}` becomes `--env NAME` for every
    variable.
    """
    cleanup: tuple[str, ...] = ()
    """Run before each start and after each end, as `["docker", "rm", "--force", "corral-{id}"]`: a container outlives
    the process that started it."""
    numa_node: int | None = None
    """Node that its CPUs and memory are taken from; None: wherever there is room."""
    pair_gpu: int | None = None
    """Second GPU, only for a context that one card cannot hold; it must be on the same PCIe switch (PIX)."""
    context_length: int | None = None
    """Longest prompt with its answer, in tokens; None: the model's own."""
    vision_cache_mb: int | None = None
    """Memory for embeddings of frames, `SGLANG_VLM_CACHE_SIZE_MB`: see `corral plan`. None: the engine's default."""
    prove: bool = True
    """A made engine answers one request with an image and a grammar before it counts as ready."""

    @property
    def is_made(self) -> bool:
        """The command line is made of a launch profile."""
        return self.kind is LaunchKind.REHEARSAL or self.model_path is not None


@attrs.frozen
class EngineConfig:
    """One engine."""

    id: EngineId
    url: str | None = None
    """`http://host:port`, without a path. Optional for an engine that says where it listens (rehearsal)."""
    launch: LaunchConfig | None = None
    """None: somebody else runs it."""
    managed: bool = True
    """False: somebody else runs it, whatever `launch` says; its `url`, key and `ca_file` are all that is used."""
    ca_file: str | None = None
    """PEM file of the authority that signed an https engine's certificate; None: the system's authorities."""
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
    concurrency: Concurrency = Concurrency.FIXED
    weight: float = 1.0
    """Share of episodes relative to the other engines."""
    cold_prefills: int = 4
    """Prompts of episodes that are new at the engine, computed at a time; warm ones pass them. Without it the survivors
    of a lost engine would be run over by its episodes."""
    chunk_tokens: int = 4096
    """The engine's chunk of prefill. Of prompts that need more than one, one at a time is sent."""
    session_cache: bool = False
    """The engine runs with SGLang's --enable-session-radix-cache: requests name their episode, and its end is told."""
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


def launch_of(config: EngineConfig) -> LaunchConfig | None:
    """How we start the engine; None where somebody else runs it."""
    return config.launch if config.managed else None


@attrs.frozen
class TenantConfig:
    """What one tenant may use of the engines: `[tenants.ID]`."""

    weight: float = 1.0
    """Share of an engine's tokens relative to other tenants that want it too."""
    input_tokens_per_minute: int | None = None
    """Prompt tokens that no cache had; None: no limit."""
    output_tokens_per_minute: int | None = None
    adapter: str | None = None
    """LoRA adapter that answers the tenant; the engine must have loaded it under this name."""


def check_tenant(tenant: TenantId, config: TenantConfig) -> list[str]:
    """Everything that is wrong with a tenant's configuration, as `key: what is wrong`."""
    problems = []
    if not is_legal_id(tenant):
        problems.append(f"{tenant!r} must be made of letters, digits, dot, dash and underscore")
    if not 0 < config.weight < math.inf:
        problems.append(f"weight: it must be more than 0, not {config.weight:g}")
    for name in ("input_tokens_per_minute", "output_tokens_per_minute"):
        limit = getattr(config, name)
        if limit is not None and limit < 1:
            problems.append(f"{name}: it must be 1 or more, not {limit}")
    if config.adapter is not None and not config.adapter.strip():
        problems.append("adapter: it must not be empty; leave it out for the base model")
    return problems


def check_engine(config: EngineConfig) -> list[str]:
    """Everything that is wrong with an engine's configuration, as `key: what is wrong`."""
    problems = []
    launch = launch_of(config)
    if not is_legal_id(config.id):
        problems.append(f"id: {config.id!r} must be made of letters, digits, dot, dash and underscore")
    if config.url is None and (launch is None or not launch.is_made):
        problems.append("url: it is needed, as nothing else says where the engine answers")
    if config.url is not None:
        problems.extend(_check_url(config.url))
    if config.ca_file is not None and not (config.url or "").startswith("https:"):
        problems.append("ca_file: it is for an https url")
    if launch is not None:
        problems.extend(_check_launch(config, launch))
    if config.gpu is not None and config.gpu < 0:
        problems.append(f"gpu: it must be 0 or more, not {config.gpu}")
    if config.max_in_flight < 1:
        problems.append(f"max_in_flight: it must be 1 or more, not {config.max_in_flight}")
    if not 0 < config.weight < math.inf:
        problems.append(f"weight: it must be more than 0, not {config.weight:g}")
    problems.extend(
        f"{name}: it must be 1 or more, not {getattr(config, name)}"
        for name in ("cold_prefills", "chunk_tokens")
        if getattr(config, name) < 1
    )
    if config.session_cache and config.dialect is not Dialect.SGLANG:
        problems.append(f"session_cache: only the sglang dialect has it, not {config.dialect}")
    if config.max_waiting < 0:
        problems.append(f"max_waiting: it must be 0 or more, not {config.max_waiting}")
    seconds = [field.name for field in attrs.fields(EngineConfig) if field.name.endswith("_seconds")]
    problems.extend(f"{name}: it must be more than 0" for name in seconds if not getattr(config, name) > 0)
    return problems


def _check_launch(config: EngineConfig, launch: LaunchConfig) -> list[str]:
    problems = []
    if not launch.is_made and not launch.args:
        problems.append(
            f"launch.args: a {launch.kind} engine needs its whole command line, or launch.model_path to have it made"
        )
    seconds = ("start_seconds", "stop_grace_seconds")
    problems += [f"launch.{name}: it must be more than 0" for name in seconds if not getattr(launch, name) > 0]
    for name, least in (("numa_node", 0), ("pair_gpu", 0), ("context_length", 1), ("vision_cache_mb", 1)):
        value = getattr(launch, name)
        if value is not None and value < least:
            problems.append(f"launch.{name}: it must be {least} or more, not {value}")
    if launch.model_path is not None and launch.kind not in {LaunchKind.SGLANG, LaunchKind.VLLM}:
        problems.append(f"launch.model_path: a {launch.kind} engine's command line is not made of it; give launch.args")
    if launch.model_path is not None and launch.kind.value != config.dialect.value:
        problems.append(f"dialect: a {launch.kind} engine speaks {launch.kind.value!r}, not {config.dialect.value!r}")
    if launch.profile is not None and launch.model_path is None:
        problems.append("launch.profile: it is used with launch.model_path only")
    for name in ("prefix", "cleanup", "executable"):
        if getattr(launch, name) and launch.model_path is None:
            problems.append(f"launch.{name}: it is used with launch.model_path only; launch.args is the whole command")
    if launch.pair_gpu is not None and (config.gpu is None or config.gpu == launch.pair_gpu):
        problems.append("launch.pair_gpu: it needs another GPU in 'gpu'")
    if launch.model_path is not None and config.url is not None and urlsplit(config.url).hostname != "127.0.0.1":
        problems.append("url: an engine that we start listens on 127.0.0.1 only")
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
