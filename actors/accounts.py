"""Accounts of games: their secrets from the environment, and exclusive leases of them."""

import os
from collections.abc import Mapping, MutableMapping, Sequence

import attrs
import trio

from actors.configuration import Problem, ScenarioError
from actors.scenario import Scenario
from actors.setup_config import environment_names, filled
from runtime.mailbox import Mailbox, MailboxStatistics, Overflow
from runtime.secret import MIN_REDACTED_LENGTH, Secret, is_taken, take_from_environment


class NoFreeAccount(Exception):
    """Every account of the pool stayed leased for as long as the phone could wait."""


@attrs.frozen
class Account:
    """One account of a game."""

    pool: str
    name: str
    """How logs and reports call it; no secret."""
    user: Secret
    password: Secret


@attrs.frozen
class Secrets:
    """All that a scenario takes from the environment."""

    accounts: tuple[Account, ...] = ()
    environment: Mapping[str, Secret] = attrs.field(factory=dict)
    """For `${env.NAME}`."""

    def reveal_text(self, template: str, account: Account | None) -> str:
        """A step's text with everything filled in: call this only where it is typed.

        Raises:
            KeyError: a placeholder that `actors.setup_config` lets nobody write.
        """
        values = {f"env.{name}": secret.reveal() for name, secret in self.environment.items()}
        if account is not None:
            values |= {"account.user": account.user.reveal(), "account.password": account.password.reveal()}
        return filled(template, values)


def wanted_variables(scenario: Scenario) -> list[tuple[str, str]]:
    """(environment variable, key path) of each secret that the scenario names."""
    wanted = []
    for index, account in enumerate(scenario.accounts):
        wanted.append((account.user_env, f"$.accounts[{index}].user_env"))
        wanted.append((account.password_env, f"$.accounts[{index}].password_env"))
    for name, app in scenario.apps.items():
        for key, flow in (("setup", app.setup), ("teardown", app.teardown)):
            if flow is not None:
                wanted += [(variable, f"$.apps.{name}.{key}.flow") for variable in environment_names(flow.flow)]
    return wanted


def environment_problems(scenario: Scenario, environ: Mapping[str, str] | None = None) -> list[Problem]:
    """One problem for each variable that is not set, and for each password too short to be kept out of logs."""
    variables = os.environ if environ is None else environ
    passwords = {account.password_env for account in scenario.accounts}
    found = []
    for name, path in wanted_variables(scenario):
        value = variables.get(name, "")
        if not value and environ is None and is_taken(name):
            continue  # by an earlier run of this process, which checked it
        if not value:
            found.append(Problem(f"environment variable {name} is not set", path))
        elif name in passwords and len(value) < MIN_REDACTED_LENGTH:
            message = f"{name} is shorter than {MIN_REDACTED_LENGTH} characters: too short to be kept out of logs"
            found.append(Problem(message, path))
    return found


def take_secrets(scenario: Scenario, environ: MutableMapping[str, str] | None = None) -> Secrets:
    """Read every secret that the scenario names, and take it out of the environment of processes started later.

    Raises:
        ScenarioError: with every variable that is missing or too short; nothing was taken.
    """
    problems = environment_problems(scenario, environ)
    if problems:
        raise ScenarioError(problems)
    taken = {name: take_from_environment(name, environ) for name, _ in wanted_variables(scenario)}
    accounts = tuple(Account(a.pool, a.name, taken[a.user_env], taken[a.password_env]) for a in scenario.accounts)
    return Secrets(accounts, taken)


class AccountPools:
    """Leases each account to one phone at a time. Who waits longest is served first.

    Args:
        accounts: All of them, free.
    """

    def __init__(self, accounts: Sequence[Account]) -> None:
        self._leased: set[tuple[str, str]] = set()
        self._free: dict[str, Mailbox[Account]] = {}
        for pool in dict.fromkeys(account.pool for account in accounts):
            members = [account for account in accounts if account.pool == pool]
            self._free[pool] = Mailbox[Account](len(members), Overflow.REJECT)
            for account in members:
                self._free[pool].put_nowait(account)

    async def lease(self, pool: str, *, wait_seconds: float) -> Account:
        """An account that nobody else has until `release`.

        Raises:
            NoFreeAccount: none was free within `wait_seconds`.
        """
        with trio.move_on_after(wait_seconds):
            account = await self._free[pool].get()
            self._leased.add((account.pool, account.name))
            return account
        raise NoFreeAccount(f"no account of pool {pool!r} was free within {wait_seconds:g} s: give it more accounts")

    def release(self, account: Account) -> None:
        """Give an account back; one that is free already stays so."""
        key = (account.pool, account.name)
        if key in self._leased:
            self._leased.discard(key)
            self._free[account.pool].put_nowait(account)

    def statistics(self) -> dict[str, MailboxStatistics]:
        """Pool → free accounts (`depth`) and phones that wait (`waiting_gets`)."""
        return {pool: free.statistics() for pool, free in self._free.items()}
