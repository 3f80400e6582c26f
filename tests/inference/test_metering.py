from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.config import TenantConfig
from inference.messages import ImagePart, Message, Prompt, TextPart, Usage
from inference.metering import Metering, TenantUsage, TokenBucket, cost_of, raw_tokens
from runtime.ids import TenantId

QA = TenantId("qa")


def prompt(text: str = "x" * 400, **changes: Any) -> Prompt:
    return attrs.evolve(Prompt("r", QA, "k", (Message("user", (TextPart(text),)),), max_tokens=100), **changes)


def test_tokens_by_rule_of_thumb() -> None:
    picture = ImagePart(b"", "0", 720, 1280)

    assert raw_tokens(prompt()) == 100
    assert raw_tokens(prompt("点" * 4)) == 3
    assert raw_tokens(prompt(messages=(Message("user", (picture,)),))) == pytest.approx(1175.5, abs=0.1)


def test_estimates_follow_what_the_engine_counts() -> None:
    metering = Metering()
    first = metering.estimate(prompt(), cold=True)
    assert (first.input_tokens, first.output_tokens, first.cost) == (100, 100, 300)
    assert metering.expected_output(prompt()) is None
    for _ in range(60):
        metering.learn(prompt(), Usage(200, 150, 30), cold=False)

    warm, cold = metering.estimate(prompt(), cold=False), metering.estimate(prompt(), cold=True)

    assert cold.input_tokens == pytest.approx(200)
    assert warm.input_tokens == pytest.approx(50, abs=1)
    assert warm.output_tokens == pytest.approx(30)
    assert metering.expected_output(prompt(max_tokens=20)) == 20
    assert cost_of(Usage(200, 150, 30)) == 110


def test_a_minutes_tokens_and_then_a_refusal_that_says_when() -> None:
    metering = Metering({QA: TenantConfig(output_tokens_per_minute=600)})
    asked = prompt()
    estimate = metering.estimate(asked, cold=True)
    passed = 0
    while metering.retry_after(asked, 0.0) == 0.0:
        metering.charge(asked, estimate, 0.0)
        passed += 1

    assert passed == 6
    wait = metering.retry_after(asked, 0.0)
    assert 0 < wait <= 1.0
    assert metering.retry_after(asked, wait) == 0.0
    assert metering.usage()[0].limited == 2


def test_what_was_estimated_too_high_is_given_back() -> None:
    metering = Metering({QA: TenantConfig(input_tokens_per_minute=100)})
    asked = prompt("x" * 4000)
    estimate = metering.estimate(asked, cold=True)
    metering.charge(asked, estimate, 0.0)
    assert metering.retry_after(asked, 0.0) > 60.0
    metering.settle(asked, estimate, Usage(1000, 990, 5), 0.0)
    assert metering.retry_after(asked, 0.0) == 0.0
    metering.charge(asked, estimate, 0.0)
    metering.settle(asked, estimate, None, 0.0)
    assert metering.retry_after(asked, 0.0) == 0.0


def test_workloads_of_a_tenant_share_its_limits_and_are_counted_apart() -> None:
    metering = Metering({QA: TenantConfig(output_tokens_per_minute=100)})
    bot, question = prompt(), prompt(workload="assistant")
    metering.charge(bot, metering.estimate(bot, cold=True), 0.0)
    metering.learn(bot, Usage(10, 4, 3), cold=False)
    metering.learn(question, Usage(20, 0, 5), cold=True)

    assert metering.retry_after(question, 0.0) > 0
    assert metering.usage() == (
        TenantUsage("assistant", QA, requests=1, limited=1, input_tokens=20, cached_tokens=0, output_tokens=5),
        TenantUsage("bots", QA, requests=1, limited=0, input_tokens=10, cached_tokens=4, output_tokens=3),
    )
    metering.configure(QA, TenantConfig())
    assert metering.retry_after(question, 0.0) == 0.0


@given(st.integers(1, 10_000), st.lists(st.tuples(st.floats(0, 30), st.floats(0, 5000)), max_size=60))
def test_no_window_lets_more_through_than_a_minute_its_rate_and_one_request(
    rate: int, asked: list[tuple[float, float]]
) -> None:
    bucket, now, passed, largest = TokenBucket(rate), 0.0, 0.0, 0.0
    for after, tokens in asked:
        now += after
        if bucket.wait_seconds(now) == 0.0:
            bucket.take(tokens, now)
            passed += tokens
            largest = max(largest, tokens)
        assert passed <= rate + rate * now / 60.0 + largest + 1e-6
