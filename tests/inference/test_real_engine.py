"""The inference plane against a real SGLang on a CPU: what rehearsal engines imitate is so in truth."""

import itertools
import json
from functools import partial
from typing import Any

import httpcore
import numpy as np
import pytest
import trio

from actors.pictures import encode_jpeg
from inference.config import EngineConfig
from inference.errors import EngineRefused
from inference.messages import Constraint, ImagePart, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from policies.grammar import Grammar, Parsed, decode, ebnf_for, regex_for
from runtime.ids import EngineId, TenantId
from tests.kit.engine.environment import sglang_marks
from tests.kit.engine.server import RealEngine, real_engine

pytestmark = sglang_marks

SECONDS = 120.0  # for one answer on a busy machine
DIGITS = Constraint(regex="[0-9]{4}")
COMPACT = Grammar(max_actions=3, max_text_length=0)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> RealEngine:
    return real_engine()


def config_for(server: RealEngine, name: str = "real", **more: Any) -> EngineConfig:
    return EngineConfig(
        EngineId(name), url=server.url, model="tiny", probe_seconds=30.0, probe_every_seconds=5.0, **more
    )


def picture(seed: int) -> ImagePart:
    noise = np.random.default_rng(seed).integers(0, 255, size=(24, 40, 3), dtype=np.uint8)
    return encode_jpeg(np.kron(noise, np.ones((8, 8, 1), dtype=np.uint8)), max_side=320, quality=80)


def prompt_for(
    *parts: TextPart | ImagePart,
    key: str = "episode-1",
    tenant: str = "bots",
    max_tokens: int = 8,
    constraint: Constraint = DIGITS,
) -> Prompt:
    return Prompt(
        request_id=f"real-{next(_numbers)}",
        tenant=TenantId(tenant),
        routing_key=key,
        messages=(Message("system", (TextPart("You play a game. " * 8),)), Message("user", parts)),
        max_tokens=max_tokens,
        constraint=constraint,
    )


async def ask(pool: EnginePool, prompt: Prompt) -> Any:
    return await pool(prompt, deadline=trio.current_time() + SECONDS)


async def loads(server: RealEngine) -> dict[str, Any]:
    async with httpcore.AsyncConnectionPool() as connections:
        with trio.fail_after(SECONDS):
            answer: dict[str, Any] = json.loads((await connections.request("GET", f"{server.url}/v1/loads")).content)
        return answer


async def test_images_and_every_kind_of_constraint(server: RealEngine) -> None:
    schema = json.dumps({"type": "object", "properties": {"x": {"enum": ["left", "right"]}}, "required": ["x"]})
    async with open_pool([config_for(server)]) as pool:
        regex = await ask(pool, prompt_for(picture(1), TextPart("where?")))
        ebnf = await ask(
            pool, prompt_for(TextPart("where?"), constraint=Constraint(ebnf='root ::= "tap " [0-9] [0-9]'))
        )
        shaped = await ask(pool, prompt_for(TextPart("?"), constraint=Constraint(json_schema=schema), max_tokens=64))
        plans = [
            await ask(pool, prompt_for(picture(1), TextPart("play"), constraint=constraint, max_tokens=64))
            for constraint in (Constraint(regex=regex_for(COMPACT)), Constraint(ebnf=ebnf_for(COMPACT)))
        ]

    assert len(regex.text) == 4
    assert regex.text.isdigit()
    assert regex.usage.image_tokens == 60, "320x192 in patches of 32"
    assert ebnf.text.startswith("tap ")
    assert json.loads(shaped.text)["x"] in {"left", "right"}
    for plan in plans:
        assert isinstance(decode(plan.text, COMPACT, cut=plan.finish_reason == "length"), Parsed), plan.text
    assert (regex.engine, regex.model, regex.why) == ("real", "tiny", "born")


async def test_the_same_prompt_is_found_in_the_cache_and_another_tenants_is_not(server: RealEngine) -> None:
    parts = (picture(2), TextPart("what now?"))
    async with open_pool([config_for(server)]) as pool:
        first = await ask(pool, prompt_for(*parts, tenant="alpha"))
        again = await ask(pool, prompt_for(*parts, tenant="alpha"))
        other = await ask(pool, prompt_for(*parts, tenant="beta"))

    assert again.usage.prompt_tokens == first.usage.prompt_tokens
    assert again.usage.cached_tokens >= first.usage.prompt_tokens - 2
    assert other.usage.cached_tokens == 0


async def test_a_cancelled_request_is_aborted_on_the_engine(server: RealEngine) -> None:
    endless = prompt_for(TextPart("tell a long story"), constraint=Constraint(regex="[a-z]{4000}"), max_tokens=4000)
    async with open_pool([config_for(server)]) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, pool, endless))
            with trio.fail_after(SECONDS):
                while (await loads(server))["loads"][0]["num_running_reqs"] == 0:
                    await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        with trio.fail_after(SECONDS):
            while (await loads(server))["loads"][0]["num_running_reqs"]:
                await trio.sleep(0.1)
        assert (await ask(pool, prompt_for(TextPart("and now?")))).text


async def test_what_the_engine_refuses_is_typed_and_costs_it_nothing(server: RealEngine) -> None:
    async with open_pool([config_for(server)]) as pool:
        with pytest.raises(EngineRefused):
            await ask(pool, prompt_for(TextPart("?"), constraint=Constraint(regex="([")))
        with pytest.raises(EngineRefused, match=r"too long|longer"):
            await ask(pool, prompt_for(TextPart("word " * 12000)))
        assert (await ask(pool, prompt_for(TextPart("?")))).text


async def test_a_drained_engine_finishes_what_it_has_and_its_episode_moves(server: RealEngine) -> None:
    slow = prompt_for(TextPart("count"), constraint=Constraint(regex="[0-9]{40}"), max_tokens=40)
    done: list[Any] = []
    async with open_pool([config_for(server, "one")]) as pool:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                done.append(await ask(pool, slow))

            nursery.start_soon(run)
            with trio.fail_after(SECONDS):
                while (await loads(server))["loads"][0]["num_running_reqs"] == 0:
                    await trio.sleep(0.05)
            pool.add_engine(config_for(server, "two"))
            await pool.drain_engine(EngineId("one"), grace_seconds=SECONDS)
        moved = await ask(pool, prompt_for(TextPart("where?"), key=slow.routing_key))

    assert len(done[0].text) == 40
    assert done[0].engine == "one"
    assert moved.engine == "two"


async def test_the_engines_own_metrics_and_load_are_read(server: RealEngine) -> None:
    async with open_pool([config_for(server)]) as pool:
        await ask(pool, prompt_for(TextPart("?")))
        with trio.fail_after(SECONDS):
            while pool.statistics().engines[0].load.token_usage is None:
                await trio.sleep(0.1)
        load = pool.statistics().engines[0].load

    assert load.token_usage is not None
    assert 0.0 <= load.token_usage <= 1.0
