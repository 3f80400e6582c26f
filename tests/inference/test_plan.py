import attrs
import pytest

from inference.default_model import default_model
from inference.gpus import gpu_named
from inference.latency_curve import CurvePoint, LatencyCurve
from inference.plan import PlanRefused, PlanRequest, plan_for
from inference.plan_report import plan_document, plan_lines, warnings_of
from inference.topology import alone, parse_topology
from tests.kit.recorded import recorded

DESIGN = PlanRequest(
    shape=default_model(),
    topology=parse_topology(recorded("topo-8x5090.txt")),
    memory_mib=32607,
    phones=100,
    output_tokens=16,
    frame=(720, 1280),
    gpu=gpu_named("5090"),
    gpu_name="RTX 5090",
)


def test_the_host_of_the_design() -> None:
    plan = plan_for(DESIGN)

    assert len(plan.placement.replicas) == 8
    assert plan.knee == 50
    assert (plan.gpus_for_bots, plan.gpus_for_assistant, plan.is_enough) == (3, 1, True)
    assert round(plan.step_ms) == 320
    assert plan.tokens_within_goal == 27
    assert [(tokens, round(ms)) for tokens, ms in plan.table] == [
        (8, 189), (16, 320), (32, 582), (64, 1105), (128, 2152), (256, 4246)
    ]  # fmt: skip


def test_what_it_warns_of() -> None:
    said = "\n".join(warnings_of(plan_for(attrs.evolve(DESIGN, output_tokens=32))))

    assert "at most 27 tokens" in said
    assert "A100 constants, not measured here" in said
    assert "SGLANG_VLM_CACHE_SIZE_MB=" in said
    assert "holds 3 frames" in said
    assert "pairs on one switch: 0+1, 2+3, 4+5, 6+7" in said
    assert "no prefill/decode separation" in said
    assert "without NVLink it makes the first token later" in said
    assert "sm120" in said
    assert "chunked" in said
    assert "--ab" in said


def test_too_few_cards() -> None:
    plan = plan_for(attrs.evolve(DESIGN, phones=1000))

    assert not plan.is_enough
    assert "GPUs are needed and 8 are there" in warnings_of(plan)[0]


def test_a_measured_curve_is_believed_and_named() -> None:
    curve = LatencyCurve((CurvePoint(1, 40.0, 8.0), CurvePoint(32, 50.0, 9.0)), "measured: here.json")
    plan = plan_for(attrs.evolve(DESIGN, curve=curve))
    said = "\n".join(warnings_of(plan))

    assert plan.step_ms == 50.0 + 16 * 9.0
    assert "A100" not in said
    assert "the measurement ends at concurrency 32" in said
    assert any("measured: here.json" in line for line in plan_lines(plan))


def test_frames_that_are_larger_than_they_need_to_be() -> None:
    said = "\n".join(warnings_of(plan_for(attrs.evolve(DESIGN, frame=(1080, 1920)))))

    assert "at 720x1280 they are 57% fewer" in said


def test_the_host_is_weaker_than_its_cards() -> None:
    said = "\n".join(warnings_of(plan_for(attrs.evolve(DESIGN, cores=8, ram_gib=32.0))))

    assert "CPU cores are needed and 8 are there" in said
    assert "GiB of RAM are needed and 32 are there" in said


def test_no_assistant() -> None:
    assert plan_for(attrs.evolve(DESIGN, questions_per_minute=0.0)).gpus_for_assistant == 0
    busy = plan_for(attrs.evolve(DESIGN, questions_per_minute=1000.0))
    assert busy.gpus_for_assistant > 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cards_per_engine": 2}, "tensor parallel without NVLink is refused"),
        ({"memory_mib": 8192}, "16.3 GiB of weights and the context of one episode do not fit"),
        ({"memory_mib": 16384, "topology": alone(1)}, "do not fit one RTX 5090: an engine on 2 cards"),
        ({"context_tokens": 300_000}, "a context of 300000 tokens is more than the 262144"),
    ],
)
def test_what_cannot_be_planned(changes: dict[str, object], why: str) -> None:
    with pytest.raises(PlanRefused, match=why):
        plan_for(attrs.evolve(DESIGN, **changes))  # type: ignore[arg-type]


def test_a_long_context_is_spread_over_pairs() -> None:
    plan = plan_for(attrs.evolve(DESIGN, context_tokens=200_000, phones=4, questions_per_minute=0.0))

    assert [replica.gpus for replica in plan.placement.replicas] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert any(line.startswith("note: pairs are for a longer context") for line in plan_lines(plan))


def test_the_document() -> None:
    document = plan_document(plan_for(DESIGN))

    assert document["step_ms_by_output_tokens"]["64"] == 1105.04
    assert document["vision_tokens_per_frame"] == 880
    assert document["engines"][7] == {"gpus": (7,), "port": 30007, "numa_node": 1, "cpus": "32-63,96-127"}
    assert document["latency_source"] == "A100 constants, not measured here"
