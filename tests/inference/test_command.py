import json
from typing import Any

import attrs
import pytest

from inference.command import (
    PORTS,
    cleanup_argv,
    help_argv,
    invocation_for,
    key_file_text,
    port_candidates,
    profile_of,
    refusals_in,
    setting_in,
    spans_cards,
)
from inference.config import Dialect, EngineConfig, LaunchConfig, LaunchKind
from inference.engine_options import EngineOptions, parse_options
from inference.errors import EngineRefused
from inference.launch_profile import LAUNCH_PROFILES
from inference.topology import Link, parse_topology
from runtime.ids import EngineId
from tests.kit.recorded import recorded

SGLANG = parse_options(recorded("sglang-0.5.23-help.txt"))
ANYTHING = EngineOptions({flag.name: None for profile in LAUNCH_PROFILES.values() for flag in profile.flags})
KEY = "kkkk-very-secret"
LAUNCH = LaunchConfig(LaunchKind.SGLANG, profile="sglang-5090", model_path="/models/q")
CONFIG = EngineConfig(EngineId("e3"), launch=LAUNCH, gpu=3, model="qwen", max_in_flight=49)


def made(config: EngineConfig = CONFIG, options: EngineOptions = SGLANG, **changes: Any) -> Any:
    launch = config.launch
    assert launch is not None
    wants: dict[str, Any] = {"port": 30003, "key": KEY, "key_file": "/run/key.yaml"} | changes
    return invocation_for(config, launch, profile_of(config, launch), options, **wants)


def with_launch(**changes: Any) -> EngineConfig:
    return attrs.evolve(CONFIG, launch=attrs.evolve(LAUNCH, **changes))


def test_the_5090_profile() -> None:
    found = made()

    assert found.argv[:5] == ("python3", "-m", "sglang.launch_server", "--model-path", "/models/q")
    settings = {
        "--served-model-name": "qwen",
        "--host": "127.0.0.1",
        "--port": "30003",
        "--kv-cache-dtype": "fp8_e4m3",
        "--attention-backend": "flashinfer",
        "--chunked-prefill-size": "2048",
        "--max-running-requests": "49",
        "--config": "/run/key.yaml",
    }
    assert {name: setting_in(found.argv, name) for name in settings} == settings
    assert "--enable-session-radix-cache" in found.argv
    assert json.loads(setting_in(found.argv, "--mm-process-config") or "") == {
        "image": {"size": {"shortest_edge": 65536, "longest_edge": 1048576}}
    }
    assert found.environment == {
        "SGLANG_VIT_ENABLE_CUDA_GRAPH": "1",
        "CUDA_VISIBLE_DEVICES": "3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert found.dropped == ()


def test_the_key_is_on_no_command_line() -> None:
    assert KEY not in " ".join(made().argv)
    assert KEY not in made().environment.values()
    assert key_file_text('a"b') == 'api-key: "a\\"b"\n'
    vllm = EngineConfig(
        EngineId("v"), dialect=Dialect.VLLM, model="q", launch=LaunchConfig(LaunchKind.VLLM, model_path="/m")
    )
    found = made(vllm, ANYTHING)
    assert KEY not in " ".join(found.argv)
    assert found.environment["VLLM_API_KEY"] == KEY
    assert found.argv[:3] == ("vllm", "serve", "/m")


def test_a_flag_that_the_engine_lacks_is_dropped_and_told() -> None:
    choices = {name: values for name, values in SGLANG.choices.items() if name != "--enable-session-radix-cache"}
    choices["--attention-backend"] = frozenset({"triton", "fa3"})
    found = made(options=EngineOptions(choices))

    assert "--enable-session-radix-cache" not in found.argv
    assert "--attention-backend" not in found.argv
    assert len(found.dropped) == 2
    assert found.dropped[0].startswith("--enable-session-radix-cache is left out: this engine has no")
    assert "does not take 'flashinfer', but fa3, triton" in found.dropped[1]


@pytest.mark.parametrize("flag", ["--config", "--host", "--model-path"])
def test_a_flag_that_nothing_can_stand_in_for(flag: str) -> None:
    choices = {name: values for name, values in SGLANG.choices.items() if name != flag}

    with pytest.raises(EngineRefused, match=f"no {flag}, and cannot be started without"):
        made(options=EngineOptions(choices))


def test_each_rung_gives_up_what_it_says() -> None:
    first, second, third, last = (made(rung=rung) for rung in (1, 2, 3, 4))

    assert first.environment["SGLANG_VIT_ENABLE_CUDA_GRAPH"] == "0"
    assert setting_in(first.argv, "--attention-backend") == "flashinfer"
    assert setting_in(second.argv, "--attention-backend") == "triton"
    assert setting_in(second.argv, "--kv-cache-dtype") == "fp8_e4m3"
    assert setting_in(third.argv, "--kv-cache-dtype") == "auto"
    assert setting_in(last.argv, "--cuda-graph-backend-decode") == "disabled"
    assert last.given_up[0] == "the vision encoder's CUDA graph"
    assert len(last.given_up) == 4


def test_what_the_operator_says_comes_last() -> None:
    found = made(
        with_launch(args=("--chunked-prefill-size", "4096"), environment={"SGLANG_VIT_ENABLE_CUDA_GRAPH": "0"})
    )

    assert setting_in(found.argv, "--chunked-prefill-size") == "4096"
    assert found.environment["SGLANG_VIT_ENABLE_CUDA_GRAPH"] == "0"


def test_vision_cache_context_and_numa() -> None:
    found = made(with_launch(vision_cache_mb=2695, context_length=8192, numa_node=1), numactl="/usr/bin/numactl")

    assert found.argv[:3] == ("/usr/bin/numactl", "--cpunodebind=1", "--preferred=1")
    assert setting_in(found.argv, "--numa-node") == "1"
    assert setting_in(found.argv, "--context-length") == "8192"
    assert found.environment["SGLANG_VLM_CACHE_SIZE_MB"] == "2695"
    assert "no numactl" in made(with_launch(numa_node=1)).dropped[0]


def test_a_container_prefix() -> None:
    prefix = ("docker", "run", "--name", "corral-{id}", "-v", "{key_file}:{key_file}:ro", "{environment}", "image")
    config = with_launch(prefix=prefix, cleanup=("docker", "rm", "--force", "corral-{id}"))
    found = made(config)

    assert found.argv[:6] == ("docker", "run", "--name", "corral-e3", "-v", "/run/key.yaml:/run/key.yaml:ro")
    assert found.argv[6:10] == ("--env", "CUDA_DEVICE_ORDER", "--env", "CUDA_VISIBLE_DEVICES")
    assert found.argv[12:15] == ("image", "python3", "-m")
    assert config.launch is not None
    assert cleanup_argv(config, config.launch) == ("docker", "rm", "--force", "corral-e3")
    asked = help_argv(config, config.launch, profile_of(config, config.launch))
    assert asked[-5:] == ("image", "python3", "-m", "sglang.launch_server", "--help")


def test_an_executable_of_ones_own() -> None:
    config = with_launch(executable=("/opt/e/bin/python", "-m", "sglang.launch_server"))

    assert made(config).argv[0] == "/opt/e/bin/python"


def test_a_pair_on_one_switch() -> None:
    topology = parse_topology(recorded("topo-8x5090.txt"))
    pair = attrs.evolve(with_launch(pair_gpu=1), gpu=0)
    found = made(pair, topology=topology)

    assert setting_in(found.argv, "--tensor-parallel-size") == "2"
    assert found.environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    with pytest.raises(EngineRefused, match=r"GPUs 0 and 2 are no pair: NODE is the path"):
        made(attrs.evolve(with_launch(pair_gpu=2), gpu=0), topology=topology)
    with pytest.raises(EngineRefused, match="nothing is known of the path"):
        made(pair)
    with_encoder = attrs.evolve(with_launch(pair_gpu=1, args=("--mm-enable-dp-encoder",)), gpu=0)
    assert "--mm-enable-dp-encoder" in made(with_encoder, topology=topology).argv


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--kv-cache-dtype", "int4"), "INT4 or FP4 KV cache is refused"),
        (("--kv-cache-dtype=nvfp4",), "INT4 or FP4 KV cache is refused"),
        (("--kv-cache-dt", "nvfp4"), "INT4 or FP4 KV cache is refused"),
        (("--kv-cache-dtype", "fp4_mx_block16"), "INT4 or FP4 KV cache is refused"),
        (("--disaggregation-mode", "prefill"), "prefill/decode separation is refused"),
        (("--kv-transfer-config", "{}"), "prefill/decode separation is refused"),
        (("--tp", "2"), "tensor parallel without NVLink is refused"),
        (("--tp-size=8",), "tensor parallel without NVLink is refused"),
        (("--tensor_parallel_size", "2"), "tensor parallel without NVLink is refused"),
        (("-tp", "2"), "tensor parallel without NVLink is refused"),
        (("-tp=2",), "tensor parallel without NVLink is refused"),
        (("--mm-enable-dp-encoder",), "--mm-enable-dp-encoder is refused"),
    ],
)
def test_what_is_never_started(arguments: tuple[str, ...], why: str) -> None:
    (reason,) = refusals_in(arguments)
    assert why in reason
    with pytest.raises(EngineRefused, match=why.split(maxsplit=1)[0]):
        made(with_launch(args=arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--kv-cache-dtype", "fp8_e4m3"),
        ("--tp", "1"),
        ("--disaggregation-mode", "null"),
        ("--kv-cache-dtype", "auto"),
    ],
)
def test_what_may_be_started(arguments: tuple[str, ...]) -> None:
    assert refusals_in(arguments) == []


def test_nvlink_may_be_parallel() -> None:
    nvlink = parse_topology(recorded("topo-4xA100-nvlink.txt"))

    assert refusals_in(("--tp", "2"), pair=Link.NVLINK) == []
    assert spans_cards(attrs.evolve(LAUNCH, args=("--tp", "2")))
    assert not spans_cards(LAUNCH)
    assert "--tp" in made(with_launch(args=("--tp", "2")), topology=nvlink).argv


def test_profiles_by_name() -> None:
    assert profile_of(CONFIG, attrs.evolve(LAUNCH, profile=None)).name == "sglang"
    with pytest.raises(EngineRefused, match="there is no launch profile 'x'; there are sglang, sglang-5090"):
        profile_of(CONFIG, attrs.evolve(LAUNCH, profile="x"))
    with pytest.raises(EngineRefused, match="is for vllm, not sglang"):
        profile_of(CONFIG, attrs.evolve(LAUNCH, profile="vllm-5090"))
    assert all(name == profile.name for name, profile in LAUNCH_PROFILES.items())


@pytest.mark.parametrize("draw", [0, 5, PORTS - 1])
def test_ports_are_below_the_ephemeral_range(draw: int) -> None:
    ports = port_candidates(draw)

    assert all(20000 <= port < 32768 for port in ports)
    assert len(set(ports)) == 64


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--host", "0.0.0.0"), "127.0.0.1 only"),
        (("--host=10.0.0.7",), "127.0.0.1 only"),
        (("--port", "30000"), "Corral chooses it"),
        (("--api-key", "k"), "every user of the host"),
        (("--admin-api-key=k",), "every user of the host"),
        (("--config", "/mine.yaml"), "reads its key"),
    ],
)
def test_what_would_open_a_started_engine_to_others_is_refused(args: tuple[str, ...], reason: str) -> None:
    with pytest.raises(EngineRefused, match=reason):
        made(with_launch(args=args))


def test_a_container_may_listen_on_a_network_of_its_own() -> None:
    assert made(with_launch(args=("--host", "0.0.0.0"), prefix=("docker", "run", "image"))).argv[-2:] == (
        "--host",
        "0.0.0.0",
    )
    assert setting_in(made(with_launch(args=("--host", "localhost"))).argv, "--host") == "localhost"


def test_a_flag_that_begins_like_a_judged_one_is_itself() -> None:
    assert setting_in(("--config-format", "x", "--context-length", "8"), "--config") is None
    assert setting_in(("--tp", "1"), "--tp-size") is None
    assert setting_in(("--context-length", "8"), "--context-length") == "8"
