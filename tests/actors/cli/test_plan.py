import json
import tomllib
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from actors.cli.main import corral
from actors.configuration import structured
from inference.config import EngineConfig, check_engine, launch_of
from inference.gpus import GPU_KINDS
from tests.kit.recorded import FOLDER, recorded

DESIGN = ("--gpu", "5090", "--count", "8")
TEXT = {
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}


@attrs.frozen
class Engines:
    """That part of a scenario."""

    engines: tuple[EngineConfig, ...]


def plan(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(corral, ["plan", *arguments], input=given)


def test_the_host_of_the_design() -> None:
    result = plan(*DESIGN, "--phones", "100", "--output-tokens", "64")

    assert result.exit_code == 0, result.output
    assert "step             1105 ms with 64 output tokens (A100 constants, not measured here)" in result.output
    assert "ms        189    320    582   1105   2152   4246" in result.output
    assert "3 GPUs for 100 phones, 1 for the assistant" in result.output
    assert "Warning: no prefill/decode separation" in result.output


def test_as_json() -> None:
    result = plan(*DESIGN, "--json", "--frame", "1080x1920")
    said = json.loads(result.output)

    assert result.exit_code == 0
    assert said["vision_tokens_per_frame"] == 34 * 60
    assert len(said["engines"]) == 8
    assert said["latency_source"] == "A100 constants, not measured here"
    assert any("fewer" in warning for warning in said["warnings"])


def test_saved_outputs_of_nvidia_smi(tmp_path: Path) -> None:
    both = tmp_path / "host.txt"
    both.write_text(recorded("topo-8x5090.txt") + recorded("smi-8x5090.xml"), "utf-8")
    said = json.loads(plan("--gpus", str(both), "--json").output)

    assert said["gpu"] == "NVIDIA GeForce RTX 5090"
    assert [engine["numa_node"] for engine in said["engines"]] == [0] * 4 + [1] * 4
    one = json.loads(plan("--gpus", "-", "--json", "--phones", "4", given=recorded("smi-1xL4.xml")).output)
    assert (one["gpu"], one["gpus"]) == ("NVIDIA L4", 1)
    matrix = plan("--gpus", str(FOLDER / "topo-8x5090.txt"), "--gpu", "5090")
    assert "pairs on one switch: 0+1" in matrix.output
    assert plan("--gpus", "-", "--tensor-parallel", "4", given=recorded("topo-4xA100-nvlink.txt")).exit_code == 2


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2", **TEXT}), "utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    said = json.loads(plan(*DESIGN, "--model", str(tmp_path), "--json").output)

    assert said["model"] == tmp_path.name
    assert said["weight_gib"] == 0.0
    assert said["kv_bytes_per_token"] == 28672
    assert said["vision_tokens_per_frame"] == 0


def test_engines_for_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2", **TEXT}), "utf-8")
    matrix = ("--gpus", str(FOLDER / "topo-8x5090.txt"), "--gpu", "5090", "--model", str(tmp_path), "--engines")
    toml = tomllib.loads(plan(*matrix).output)
    engines, problems = structured({"engines": toml["engines"]}, Engines)

    assert problems == []
    assert engines is not None
    assert [engine.gpu for engine in engines.engines] == list(range(8))
    assert [check_engine(engine) for engine in engines.engines] == [[]] * 8
    last = launch_of(engines.engines[7])
    assert last is not None
    assert (last.profile, last.numa_node, last.model_path) == ("sglang-5090", 1, str(tmp_path))
    pairs = tomllib.loads(plan(*matrix, "--context", "32000", "--tensor-parallel", "1").output)
    assert pairs["engines"][0]["launch"]["context_length"] == 32000
    assert plan(*DESIGN, "--engines").exit_code == 2


def test_measured_latencies(tmp_path: Path) -> None:
    curve = tmp_path / "curve.json"
    points = [
        {"concurrency": 1, "ttft_ms_p50": 40, "tpot_ms_p50": 8},
        {"concurrency": 64, "ttft_ms_p50": 50, "tpot_ms_p50": 9},
    ]
    curve.write_text(json.dumps({"points": points}), "utf-8")
    said = json.loads(plan(*DESIGN, "--measured", str(curve), "--json", "--output-tokens", "10").output)

    assert said["latency_source"] == f"measured: {curve}"
    assert said["knee"] == 64
    assert said["step_ms"] == 140.0
    assert not any("A100" in warning for warning in said["warnings"])


def test_too_few_gpus() -> None:
    result = plan("--gpu", "L4", "--count", "1")

    assert result.exit_code == 1
    assert "Warning: 10 GPUs are needed and 1 are there" in result.output


@pytest.mark.parametrize("kind", [kind.name for kind in GPU_KINDS])
def test_every_gpu_of_the_table_can_be_planned(kind: str) -> None:
    assert plan("--gpu", kind, "--phones", "1", "--questions", "0").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--gpu", "9090"), "no GPU '9090' in the table; there are 5090, 4090"),
        (("--count", "8"), "--count needs --gpu NAME"),
        (("--gpus", "/nowhere"), "/nowhere cannot be read: No such file"),
        (("--gpus", str(FOLDER)), "cannot be read: Is a directory"),
        (("--gpus", str(FOLDER / "smi-none.txt")), "nvidia-smi found no GPU: No devices were found"),
        (("--gpus", str(FOLDER / "smi-failed.txt")), "nvidia-smi found no GPU: NVIDIA-SMI has failed"),
        (("--gpus", str(FOLDER / "smi-none.xml")), "nvidia-smi lists no GPU"),
        (("--gpus", str(FOLDER / "topo-8x5090.txt")), "name the cards by --gpu as well"),
        (("--gpus", str(FOLDER / "README.md")), "this is no output of nvidia-smi topo -m"),
        (("--gpus", str(FOLDER / "topo-8x5090.txt"), "--gpu", "5090", "--count", "2"), "--count is for --gpu"),
        ((*DESIGN, "--model", "/nowhere"), "/nowhere has no config.json"),
        ((*DESIGN, "--measured", "/nowhere"), "/nowhere cannot be read"),
        ((*DESIGN, "--measured", str(FOLDER / "README.md")), "README.md is not JSON"),
        ((*DESIGN, "--tensor-parallel", "2"), "tensor parallel without NVLink is refused"),
        ((*DESIGN, "--context", "9000000"), "a context of 9000000 tokens is more than"),
        ((*DESIGN, "--frame", "0x0"), "'0x0' is no size like 720x1280"),
        ((*DESIGN, "--phones", "0"), "0 is not in the range"),
        ((*DESIGN, "--questions", "nan"), "nan is not a number of 0 or more"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], why: str) -> None:
    result = plan(*arguments)

    assert result.exit_code == 2
    assert why in result.output
    assert sum("Error" in line for line in result.output.splitlines()) == 1
    assert "Traceback" not in result.output


def test_a_host_without_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = plan()

    assert result.exit_code == 2
    assert "there is no nvidia-smi on this host: say --gpu NAME --count N" in result.output
