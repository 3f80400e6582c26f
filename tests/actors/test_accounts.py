"""Accounts are leased to one phone at a time, and their secrets are shown to nobody."""

import os
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.accounts import Account, AccountPools, NoFreeAccount, Secrets, take_secrets
from actors.configuration import ScenarioError
from actors.scenario import parse_scenario
from actors.session import reply_for
from inference.messages import Completion, Usage
from policies.planner import PlanRequest
from runtime.ids import EngineId
from runtime.secret import Secret
from tests.kit.percepts import percept
from tests.kit.setups import ACCOUNTS, BASE


def account(name: str, pool: str = "main") -> Account:
    return Account(pool, name, Secret(f"user-{name}"), Secret(f"password-{name}"))


async def test_the_longest_waiting_phone_gets_the_next_free_account(autojump_clock: Any) -> None:
    pools = AccountPools([account("ann"), account("bob")])
    served: list[tuple[int, str]] = []

    async def phone(number: int) -> None:
        got = await pools.lease("main", wait_seconds=100)
        served.append((number, got.name))
        await trio.sleep(1 + number)
        pools.release(got)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(phone, number)
            await wait_all_tasks_blocked()

    assert [number for number, _ in served] == [0, 1, 2, 3, 4]
    statistics = pools.statistics()["main"]
    assert (statistics.depth, statistics.waiting_gets) == (2, 0)


async def test_waiting_is_bounded_and_says_what_to_do(autojump_clock: Any) -> None:
    pools = AccountPools([account("ann")])
    await pools.lease("main", wait_seconds=1)
    started = trio.current_time()

    with pytest.raises(NoFreeAccount, match="no account of pool 'main' was free within 30 s"):
        await pools.lease("main", wait_seconds=30)

    assert trio.current_time() - started == pytest.approx(30)


async def test_a_cancelled_wait_takes_nothing(autojump_clock: Any) -> None:
    pools = AccountPools([account("ann")])
    leased = await pools.lease("main", wait_seconds=1)
    with trio.move_on_after(1):
        await pools.lease("main", wait_seconds=100)

    pools.release(leased)
    pools.release(leased)

    assert pools.statistics()["main"].depth == 1, "released twice is free once"
    assert (await pools.lease("main", wait_seconds=1)).name == "ann"


def test_nothing_shows_a_secret() -> None:
    held = account("ann")

    assert "password-ann" not in f"{held!r} {held} {Secrets((held,), {'X': held.password})!r}"


def test_secrets_leave_the_environment_and_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = parse_scenario((BASE + ACCOUNTS).encode())
    for name in ("USER_A", "PASSWORD_A", "USER_B", "PASSWORD_B"):
        monkeypatch.setenv(name, f"value-of-{name}")

    taken = take_secrets(scenario)

    assert not any(name in os.environ for name in ("USER_A", "PASSWORD_A", "USER_B", "PASSWORD_B"))
    assert taken.reveal_text("<${account.password}>", taken.accounts[1]) == "<value-of-PASSWORD_B>"
    assert take_secrets(scenario) == taken
    monkeypatch.setenv("USER_A", "somebody else")
    assert take_secrets(scenario).accounts[0].user.reveal() == "somebody else"


def test_what_is_missing_takes_nothing() -> None:
    scenario = parse_scenario((BASE + ACCOUNTS.replace("USER_A", "UNSET_A")).encode())
    environ = {"PASSWORD_A": "long enough", "USER_B": "bob", "PASSWORD_B": "long enough"}

    with pytest.raises(ScenarioError, match="environment variable UNSET_A is not set"):
        take_secrets(scenario, environ)

    assert len(environ) == 3


def test_a_model_that_reads_a_secret_off_the_screen_hands_on_a_mask() -> None:
    held = account("carol")
    seen = percept(0, 0.0)
    request = PlanRequest("r0", 0.0, "first", (), seen, 0, 0)
    usage = Usage(prompt_tokens=1, cached_tokens=0, output_tokens=1)
    said = Completion(f'K"{held.user.reveal()}"', "stop", usage, EngineId("e0"), "m", "born", 0.0, 0.0, 0.0)

    assert reply_for(request, said).text == 'K"***"'
