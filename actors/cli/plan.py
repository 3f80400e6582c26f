"""`corral plan`: what a host carries, before anything is started."""

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import NoReturn

import attrs
import click
import trio

from actors.nvidia_smi import query_gpus, query_topology
from inference.capacity import KV_BYTES
from inference.default_model import default_model
from inference.gpu_state import GpuState, parse_gpus
from inference.gpus import GPU_KINDS, GpuKind, gpu_named, gpu_of_product
from inference.latency_curve import A100_CURVE, CurveError, LatencyCurve, parse_curve
from inference.model_shape import ModelError, ModelShape, parse_model
from inference.plan import PlanRefused, PlanRequest, plan_for
from inference.plan_report import engines_toml, plan_document, plan_lines, warnings_of
from inference.topology import Topology, TopologyError, alone, parse_topology

EXIT_NOT_ENOUGH = 1
EXIT_WRONG = 2
MAX_FILE_BYTES = 8 << 20  # an nvidia-smi output of 16 GPUs is 2 MB
END_OF_XML = "</nvidia_smi_log>"
DESIGN_HINT = "say --gpu NAME --count N, or give --gpus FILE"


class InputError(Exception):
    """Something that was given cannot be planned with."""


@attrs.frozen
class _Gpus:
    topology: Topology
    memory_mib: int
    kind: GpuKind | None
    name: str
    is_here: bool


def frame_size(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[int, int]:
    """`720x1280` → (720, 1280)."""
    found = re.fullmatch(r"([1-9]\d{1,4})x([1-9]\d{1,4})", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no size like 720x1280")
    return int(found.group(1)), int(found.group(2))


def finite(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    """A number that is 0 or more, and not `nan` or `inf`."""
    if not (math.isfinite(value) and value >= 0):
        raise click.BadParameter(f"{value:g} is not a number of 0 or more")
    return value


@click.command()
@click.option(
    "--gpus",
    "gpus_file",
    type=click.Path(path_type=Path),
    help="Saved output of nvidia-smi -q -x, of nvidia-smi topo -m, or of both after one another; - is standard input.",
)
@click.option("--gpu", "gpu_name", help=f"Model of the GPUs: {', '.join(kind.name for kind in GPU_KINDS)}.")
@click.option("--count", type=click.IntRange(1, 64), help="How many there are; with --gpu.")
@click.option(
    "--model",
    "model_dir",
    type=click.Path(path_type=Path),
    help="Folder with the model's config.json; without it, Qwen3-VL-8B.",
)
@click.option("--phones", default=100, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--output-tokens", default=16, show_default=True, type=click.IntRange(1, 100_000), help="Of one plan.")
@click.option("--frame", default="720x1280", show_default=True, callback=frame_size, help="Frames as they are sent.")
@click.option("--kv-dtype", default="fp8", show_default=True, type=click.Choice(sorted(KV_BYTES)))
@click.option(
    "--context",
    "context_tokens",
    type=click.IntRange(1, 10_000_000),
    help="Tokens of one episode, instead of what the default layout needs.",
)
@click.option("--tensor-parallel", default=1, show_default=True, type=click.IntRange(1, 64), help="Cards an engine.")
@click.option(
    "--questions", default=60.0, show_default=True, callback=finite, help="Of the assistant, a minute; 0: none."
)
@click.option("--measured", type=click.Path(path_type=Path), help="Latencies as corral bench engine wrote them.")
@click.option(
    "--engines", "as_engines", is_flag=True, help="The [[engines]] of a scenario instead of text; needs --model."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def plan(
    gpus_file: Path | None,
    gpu_name: str | None,
    count: int | None,
    model_dir: Path | None,
    phones: int,
    output_tokens: int,
    frame: tuple[int, int],
    kv_dtype: str,
    context_tokens: int | None,
    tensor_parallel: int,
    questions: float,
    measured: Path | None,
    as_engines: bool,
    as_json: bool,
) -> None:
    """Plan a host: engines, KV cache, episodes, latency, and how many GPUs bots and assistant need.

    Without --gpus and --gpu, the GPUs of this host are asked. Nothing is started.

    Exit code: 0 the GPUs are enough; 1 they are not; 2 something cannot be planned.
    """
    if as_engines and (as_json or model_dir is None):
        raise click.UsageError("--engines needs --model DIR, and is not --json")
    try:
        found = _gpus_of(gpus_file, gpu_name, count)
        request = PlanRequest(
            shape=default_model() if model_dir is None else _model_in(model_dir),
            topology=found.topology,
            memory_mib=found.memory_mib,
            phones=phones,
            output_tokens=output_tokens,
            frame=frame,
            gpu=found.kind,
            gpu_name=found.name,
            kv_dtype=kv_dtype,
            curve=_curve_in(measured),
            questions_per_minute=questions,
            cards_per_engine=tensor_parallel,
            context_tokens=context_tokens,
            cores=os.cpu_count() if found.is_here else None,
            ram_gib=_ram_gib() if found.is_here else None,
        )
        made = plan_for(request)
    except (InputError, TopologyError, ModelError, CurveError, PlanRefused) as error:
        _refuse(str(error))
    if as_engines and model_dir is not None:
        click.echo(engines_toml(made, str(model_dir.resolve()), made.request.shape.name), nl=False)
    elif as_json:
        click.echo(json.dumps(plan_document(made), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(plan_lines(made)))
        for warning in warnings_of(made):
            click.echo(f"Warning: {warning}")
    sys.exit(0 if made.is_enough else EXIT_NOT_ENOUGH)


def _gpus_of(file: Path | None, name: str | None, count: int | None) -> _Gpus:
    kind = None if name is None else gpu_named(name)
    if name is not None and kind is None:
        raise InputError(f"no GPU {name!r} in the table; there are {', '.join(one.name for one in GPU_KINDS)}")
    if file is not None:
        if count is not None:
            raise InputError("--count is for --gpu; with --gpus the file says how many there are")
        return _gpus_in(_text_of(file), str(file), kind)
    if kind is not None:
        return _Gpus(alone(count or 1), kind.memory_mib, kind, _shown(kind), is_here=False)
    if count is not None:
        raise InputError("--count needs --gpu NAME")
    try:
        states = trio.run(query_gpus)
        topology = trio.run(query_topology) if len(states) > 1 else alone(len(states))
    except TopologyError as error:
        raise InputError(f"{error}: {DESIGN_HINT}") from error
    return attrs.evolve(_gpus_from(states, topology, "this host"), is_here=True)


def _gpus_in(text: str, file: str, kind: GpuKind | None) -> _Gpus:
    """GPUs of a file; its XML says what they are, its matrix how they are connected."""
    before, end, after = text.partition(END_OF_XML)
    start = before.find("<?xml") if end else -1
    if start >= 0:
        states = parse_gpus(before[start:] + end)
        rest = before[:start] + after
        matrix = parse_topology(rest) if "GPU0" in rest else alone(len(states))
        found = _gpus_from(states, matrix, file)
        return found if kind is None else attrs.evolve(found, kind=kind)
    topology = parse_topology(text)
    if kind is None:
        raise InputError(f"{file} has no nvidia-smi -q -x, so the memory is not known: name the cards by --gpu as well")
    return _Gpus(topology, kind.memory_mib, kind, _shown(kind), is_here=False)


def _gpus_from(states: tuple[GpuState, ...], topology: Topology, where: str) -> _Gpus:
    if not states:
        raise InputError(f"nvidia-smi lists no GPU on {where}: {DESIGN_HINT}")
    if len(states) != len(topology.gpus):
        raise InputError(f"{where}: nvidia-smi -q -x has {len(states)} GPUs, and topo -m has {len(topology.gpus)}")
    smallest = min(states, key=lambda state: state.memory_total_mib)
    names = " and ".join(sorted({state.product for state in states}))
    return _Gpus(topology, smallest.memory_total_mib, gpu_of_product(smallest.product), names, is_here=False)


def _shown(kind: GpuKind) -> str:
    return f"RTX {kind.name}" if kind.name.isdigit() else kind.name


def _model_in(folder: Path) -> ModelShape:
    config = folder / "config.json"
    if not config.is_file():
        raise InputError(f"{folder} has no config.json: --model names a model's folder")
    processor = folder / "preprocessor_config.json"
    try:
        weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        processor_bytes = processor.read_bytes() if processor.is_file() else None
        shape = parse_model(config.read_bytes(), processor_bytes, weight_bytes=weights or None)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}") from error
    return attrs.evolve(shape, name=folder.resolve().name or shape.name)


def _curve_in(file: Path | None) -> LatencyCurve:
    return A100_CURVE if file is None else parse_curve(_text_of(file).encode(), str(file))


def _text_of(file: Path) -> str:
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with file.open("rb") as source:
                content = source.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB: it is no output of nvidia-smi")
    return content.decode("utf-8", "replace")


def _ram_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1)


def _refuse(why: str) -> NoReturn:
    click.echo(f"Error: {' '.join(why.split())}", err=True)
    sys.exit(EXIT_WRONG)
