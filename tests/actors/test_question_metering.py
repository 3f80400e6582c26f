"""Tokens of questions: limits by the minute, totals, and what an event may say of them."""

import pytest

from actors.question_metering import NO_TOKENS, QuestionMetering, usage_in
from inference.config import TenantConfig
from inference.messages import Usage
from runtime.ids import TenantId

NORTH, SOUTH = TenantId("north"), TenantId("south")


def test_a_tenant_is_held_to_output_apart_and_others_are_not() -> None:
    metering = QuestionMetering({NORTH: TenantConfig(output_tokens_per_minute=60)})
    for tenant in (NORTH, SOUTH):
        metering.end(tenant, metering.begin(tenant, 0.0), Usage(1000, 0, 90), 0.0)

    assert metering.retry_after(NORTH, 0.0) == pytest.approx(31.0)
    assert metering.retry_after(SOUTH, 0.0) == 0
    assert metering.retry_after(NORTH, 31.0) == 0
    assert [(one.tenant, one.questions, one.limited) for one in metering.usage()] == [(NORTH, 1, 1), (SOUTH, 1, 0)]


def test_questions_under_way_are_charged_what_they_cost_on_average() -> None:
    metering = QuestionMetering({NORTH: TenantConfig(input_tokens_per_minute=1000)})
    metering.end(NORTH, metering.begin(NORTH, 0.0), Usage(600, 0, 1), 0.0)
    charge = metering.begin(NORTH, 60.0)

    assert metering.retry_after(NORTH, 60.0) == 0
    second = metering.begin(NORTH, 60.0)
    assert metering.retry_after(NORTH, 60.0) > 0
    for one in (charge, second):  # neither used any
        metering.end(NORTH, one, NO_TOKENS, 60.0)
    assert metering.retry_after(NORTH, 60.0) == 0


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        ({"input": 9, "cached": 4, "output": 2}, Usage(9, 4, 2)),
        ({"input": 9, "cached": 40}, Usage(9, 9, 0)),
        ({"input": -9, "output": "many"}, NO_TOKENS),
        (17, NO_TOKENS),
        (None, NO_TOKENS),
    ],
)
def test_an_event_tells_its_tokens_or_none(tokens: object, usage: Usage) -> None:
    assert usage_in({"tokens": tokens}) == usage
