"""The command line and environment of an engine that we start: one GPU, one engine."""

import json
from collections.abc import Mapping, Sequence

import attrs

from inference.config import EngineConfig, LaunchConfig
from inference.engine_options import EngineOptions
from inference.errors import EngineRefused
from inference.launch_profile import LAUNCH_PROFILES, Flag, KeyWay, LaunchProfile
from inference.placement import WHY_NO_DISAGGREGATION, WHY_NO_DP_ENCODER, WHY_NO_INT4_KV, WHY_NO_TENSOR_PARALLEL
from inference.topology import Link, Topology

FIRST_PORT, PORTS = 20000, 12000  # below the ephemeral range, which begins at 32768
KEY_VARIABLE = "CORRAL_ENGINE_KEY"  # of the rehearsal engine
_SMALL_KV = ("int4", "fp4", "nvfp4", "mxfp4", "int2", "turboquant")
_JUDGED = (
    *("--kv-cache-dtype", "--disaggregation-mode", "--kv-transfer-config", "--mm-enable-dp-encoder"),
    *("--tp-size", "--tp", "--tensor-parallel-size"),
    *("--host", "--port", "--api-key", "--admin-api-key", "--config"),
)
_PARALLEL = ("--tp-size", "--tp", "--tensor-parallel-size", "-tp")
_SHORT = ("-tp",)  # vLLM's short flags that are looked at
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@attrs.frozen
class Invocation:
    """How to start an engine."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    dropped: tuple[str, ...] = ()
    """Flags that the installed engine does not take, each with the reason."""
    given_up: tuple[str, ...] = ()
    """What the ladder has given up so far."""


def profile_of(config: EngineConfig, launch: LaunchConfig) -> LaunchProfile:
    """The launch profile that an engine is started by.

    Raises:
        EngineRefused: there is none of that name, or it is for another engine.
    """
    name = launch.profile or launch.kind.value
    profile = LAUNCH_PROFILES.get(name)
    if profile is None:
        known = ", ".join(LAUNCH_PROFILES)
        raise EngineRefused(f"there is no launch profile {name!r}; there are {known}", engine=config.id)
    if profile.kind is not launch.kind:
        raise EngineRefused(f"launch profile {name!r} is for {profile.kind}, not {launch.kind}", engine=config.id)
    return profile


def help_argv(config: EngineConfig, launch: LaunchConfig, profile: LaunchProfile) -> tuple[str, ...]:
    """The command that prints which flags the engine has."""
    values = _values(config, launch, port=FIRST_PORT, key_file="")
    program = tuple(part for part in launch.executable or profile.command if part != "{model_path}")
    prefix = _filled_prefix(launch.prefix, values, sorted({**profile.environment, **launch.environment}))
    return (*prefix, *program, *profile.help_arguments)


def cleanup_argv(config: EngineConfig, launch: LaunchConfig) -> tuple[str, ...]:
    """What is run before each start and after each end; empty for nothing."""
    values = _values(config, launch, port=FIRST_PORT, key_file="")
    return tuple(_filled(part, values) for part in launch.cleanup)


def invocation_for(
    config: EngineConfig,
    launch: LaunchConfig,
    profile: LaunchProfile,
    options: EngineOptions,
    *,
    port: int,
    key: str,
    key_file: str,
    rung: int = 0,
    topology: Topology | None = None,
    numactl: str | None = None,
) -> Invocation:
    """Put the command line together.

    Args:
        config: of the engine.
        launch: its launch section.
        profile: see `profile_of`.
        options: of the installed engine.
        port: where it shall listen, on 127.0.0.1.
        key: that clients must send; it stands in the environment or in `key_file`, never in `argv`.
        key_file: holds `key_file_text`, for profiles that read their key from a file.
        rung: how many steps of the ladder have been taken.
        topology: of the host; needed where `spans_cards` says so.
        numactl: path of `numactl`; None: not there.

    Raises:
        EngineRefused: something in it is never done here, or the engine lacks a flag that nothing can stand in for.
    """
    wanted, environment = _wanted(launch, profile, rung)
    values = _values(config, launch, port=port, key_file=key_file)
    if profile.key_way is KeyWay.CONFIG_FILE:
        wanted.append(Flag("--config", "the key, in a file that only we can read", "{key_file}", needed=True))
    else:
        environment[profile.key_variable] = key
    arguments: list[str] = []
    dropped: list[str] = []
    for flag in wanted:
        value = None if flag.value is None else _filled(flag.value, values)
        lacks = options.lacks(flag.name, value)
        if lacks is None:
            arguments += [flag.name] if value is None else [flag.name, value]
        elif flag.needed:
            raise EngineRefused(f"{lacks}, and cannot be started without ({flag.why})", engine=config.id)
        else:
            dropped.append(f"{flag.name} is left out: {lacks} ({flag.why})")
    arguments += launch.args
    environment |= launch.environment
    environment |= _gpu_environment(config, launch)
    if launch.vision_cache_mb is not None:
        environment.setdefault("SGLANG_VLM_CACHE_SIZE_MB", str(launch.vision_cache_mb))
    refused = refusals_in(arguments, pair=_pair_link(config, launch, topology)) + exposures_in(launch, profile)
    if refused:
        raise EngineRefused("; ".join(refused), engine=config.id)
    binding = () if numactl is None or launch.numa_node is None else _numa(numactl, launch.numa_node)
    if launch.numa_node is not None and numactl is None:
        dropped.append(f"its CPUs are not bound to NUMA node {launch.numa_node}: there is no numactl on this host")
    program = tuple(_filled(part, values) for part in launch.executable or profile.command)
    if launch.executable and "{model_path}" in profile.command:
        program = (*program, _filled("{model_path}", values))
    prefix = _filled_prefix(launch.prefix, values, sorted(environment))
    given_up = tuple(step.gives_up for step in profile.ladder[:rung])
    return Invocation((*binding, *prefix, *program, *arguments), environment, tuple(dropped), given_up)


def refusals_in(arguments: Sequence[str], *, pair: Link | None = None) -> list[str]:
    """Why a command line is never run here; empty where it may be.

    Args:
        arguments: of the engine.
        pair: what connects the two cards of an engine on two; None: it has one.
    """
    found = []
    settings = _settings(arguments)
    if any(word in settings.get("--kv-cache-dtype", "").lower() for word in _SMALL_KV):
        found.append(WHY_NO_INT4_KV)
    if settings.get("--disaggregation-mode", "null") != "null" or "--kv-transfer-config" in settings:
        found.append(WHY_NO_DISAGGREGATION)
    parallel = next((settings[name] for name in _PARALLEL if name in settings), "1")
    if parallel != "1" and pair not in {Link.NVLINK, Link.PIX}:
        found.append(f"{WHY_NO_TENSOR_PARALLEL}; for a longer context name a PIX pair in launch.pair_gpu")
    if "--mm-enable-dp-encoder" in settings and pair not in {Link.NVLINK, Link.PIX}:
        found.append(WHY_NO_DP_ENCODER)
    return found


def exposures_in(launch: LaunchConfig, profile: LaunchProfile) -> list[str]:
    """What in a launch section's own arguments would open the engine to others, or hide it from us; mostly nothing."""
    found = []
    settings = _settings(launch.args)
    host = settings.get("--host")
    if host is not None and host not in _LOOPBACK and not launch.prefix:  # a container's network may be its own
        found.append(
            f"--host {host} is refused: an engine that Corral starts listens on 127.0.0.1 only; others reach an engine "
            "that somebody else runs, with managed = false"
        )
    if "--port" in settings:
        found.append("--port is refused: Corral chooses it, so that two engines never want the same")
    if "--api-key" in settings or "--admin-api-key" in settings:
        found.append("an API key on the command line is refused: every user of the host sees it; Corral makes one anew")
    if profile.key_way is KeyWay.CONFIG_FILE and "--config" in settings:
        found.append("--config is refused: the engine reads its key from the file that Corral writes for it")
    return found


def spans_cards(launch: LaunchConfig) -> bool:
    """The engine is to run on more than one card, so that the host's topology decides whether it may."""
    settings = _settings(launch.args)
    return launch.pair_gpu is not None or any(name in settings for name in (*_PARALLEL, "--mm-enable-dp-encoder"))


def setting_in(arguments: Sequence[str], name: str) -> str | None:
    """The value of a flag on a command line; None where it does not stand there."""
    return _settings(arguments).get(name)


def key_file_text(key: str) -> str:
    """YAML that tells SGLang its key."""
    return f"api-key: {json.dumps(key)}\n"


def port_candidates(draw: int) -> tuple[int, ...]:
    """Ports to try, from one drawn at random: two engines that start at once must not want the same."""
    return tuple(FIRST_PORT + (draw + step) % PORTS for step in range(64))


def _wanted(launch: LaunchConfig, profile: LaunchProfile, rung: int) -> tuple[list[Flag], dict[str, str]]:
    flags = {flag.name: flag for flag in profile.flags}
    environment = dict(profile.environment)
    if launch.context_length is not None:
        name = "--context-length" if profile.dialect == "sglang" else "--max-model-len"
        flags[name] = Flag(name, "as the scenario says", str(launch.context_length))
    if launch.pair_gpu is not None:
        flags["--tensor-parallel-size"] = Flag("--tensor-parallel-size", "one context on two cards", "2", needed=True)
    if launch.numa_node is not None and launch.kind.value == "sglang":
        flags["--numa-node"] = Flag("--numa-node", "memory near the GPU", str(launch.numa_node))
    for step in profile.ladder[:rung]:
        flags |= {flag.name: flag for flag in step.flags}
        environment |= step.environment
    return list(flags.values()), environment


def _gpu_environment(config: EngineConfig, launch: LaunchConfig) -> dict[str, str]:
    if config.gpu is None:
        return {}
    cards = str(config.gpu) if launch.pair_gpu is None else f"{config.gpu},{launch.pair_gpu}"
    return {"CUDA_VISIBLE_DEVICES": cards, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # the order that nvidia-smi counts in


def _pair_link(config: EngineConfig, launch: LaunchConfig, topology: Topology | None) -> Link | None:
    if launch.pair_gpu is None:
        return Link.NVLINK if topology is not None and topology.has_nvlink else None
    link = None if topology is None or config.gpu is None else topology.link(config.gpu, launch.pair_gpu)
    if link not in {Link.PIX, Link.NVLINK}:
        how = "nothing is known of" if link is None else f"{link} is"
        raise EngineRefused(
            f"GPUs {config.gpu} and {launch.pair_gpu} are no pair: {how} the path between them, and only cards on one "
            "PCIe switch (PIX), or with NVLink, share an engine",
            engine=config.id,
        )
    return link


def _numa(numactl: str, node: int) -> tuple[str, ...]:
    return (numactl, f"--cpunodebind={node}", f"--preferred={node}")


def _settings(arguments: Sequence[str]) -> dict[str, str]:
    """Flag → its value, by the last that stands there; both `--a b` and `--a=b`.

    Engines take abbreviations (argparse), so one of a flag that is judged here counts as that flag.
    """
    found: dict[str, str] = {}
    for place, argument in enumerate(arguments):
        if not argument.startswith(("--", *_SHORT)):
            continue
        name, equals, value = argument.partition("=")
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        name = name.replace("_", "-")
        whole = [judged for judged in _JUDGED if len(name) > len("--x") and judged.startswith(name)]
        for flag in [name] if name in _JUDGED or not whole else whole:
            found[flag] = value if equals else following
    return found


def _values(config: EngineConfig, launch: LaunchConfig, *, port: int, key_file: str) -> dict[str, str]:
    return {
        "id": config.id,
        "model": config.model,
        "model_path": launch.model_path or "",
        "max_in_flight": str(config.max_in_flight),
        "port": str(port),
        "gpu": "" if config.gpu is None else str(config.gpu),
        "key_file": key_file,
    }


def _filled(text: str, values: Mapping[str, str]) -> str:
    """`{name}` → its value; other braces, as those of JSON, are left alone."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _filled_prefix(prefix: Sequence[str], values: Mapping[str, str], variables: Sequence[str]) -> tuple[str, ...]:
    filled: list[str] = []
    for part in prefix:
        if part == "{environment}":
            filled += [word for variable in variables for word in ("--env", variable)]
        else:
            filled.append(_filled(part, values))
    return tuple(filled)
