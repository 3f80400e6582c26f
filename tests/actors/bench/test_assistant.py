"""The benchmark in short: it runs the real server, and its numbers are there."""

import pytest

from actors.bench.assistant import AssistantBench, bench_assistant
from actors.bench.engines import BenchUnavailable
from actors.bench.result import tell_nobody


def test_every_question_is_answered_and_idle_sessions_are_measured() -> None:
    plan = AssistantBench(sessions=5, rate=20.0, seconds=1.0, idle=50, alone=5)
    result = bench_assistant(plan, tell=tell_nobody)

    assert (result.summary["questions"], result.summary["unanswered"]) == (20, 0)
    assert result.summary["intent_p95_ms"] > 0
    assert result.summary["question_cpu_p50_ms"] >= 0
    assert result.summary["idle_sessions"] == 50
    assert len(result.rows) == 20


@pytest.mark.parametrize("name", ["", "no.such.module:x", "actors.bench.assistant_pipeline:none"])
def test_what_cannot_answer_is_told(name: str) -> None:
    with pytest.raises(BenchUnavailable, match="is not MODULE:FUNCTION"):
        bench_assistant(AssistantBench(answering=name), tell=tell_nobody)
