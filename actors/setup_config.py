"""How an app is brought to where an episode can begin, and put away after it, and its accounts."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum

import attrs

from policies.flow import FlowStep

_ENVIRONMENT_NAME = {"pattern": r"[A-Za-z_][A-Za-z0-9_]*", "means": "the name of an environment variable"}
_LABEL = {"pattern": r"[A-Za-z0-9._-]{1,40}", "means": "letters, digits, dot, dash, underscore; up to 40"}
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_PERMISSION = re.compile(r"[A-Za-z][\w.]*")


class Reinstall(StrEnum):
    """When APKs are installed."""

    MISSING = "missing"
    """Only where the package is not there."""
    ALWAYS = "always"
    """Before every episode."""


@attrs.frozen
class SetupConfig:
    """`[apps.X.setup]`: done before every episode, in the order of these fields."""

    accounts: str | None = attrs.field(default=None, metadata=_LABEL)
    """The pool from which the phone leases one account for the episode."""
    account_wait_seconds: float = attrs.field(default=600.0, metadata={"above": 0})
    """How long a phone waits for a free one."""
    install: tuple[str, ...] = ()
    """A base APK and its splits, beside the scenario; they go in together or not at all."""
    reinstall: Reinstall = Reinstall.MISSING
    clear: bool = False
    """Forget all of the app's data (and permissions)."""
    grant: tuple[str, ...] = ()
    """Permissions, e.g. `android.permission.POST_NOTIFICATIONS`."""
    start: bool = True
    """Stop the app and start it afresh."""
    flow: tuple[FlowStep, ...] = ()


@attrs.frozen
class TeardownConfig:
    """`[apps.X.teardown]`: done after every episode, in the order of these fields."""

    flow: tuple[FlowStep, ...] = ()
    """Left out when the run is being stopped, or the setup failed."""
    stop: bool = True
    clear: bool = False
    uninstall: bool = False


@attrs.frozen
class AccountConfig:
    """`[[accounts]]`: names of environment variables, never values."""

    pool: str = attrs.field(metadata=_LABEL)
    name: str = attrs.field(metadata=_LABEL)
    """How logs and reports call it."""
    user_env: str = attrs.field(metadata=_ENVIRONMENT_NAME)
    password_env: str = attrs.field(metadata=_ENVIRONMENT_NAME)


def placeholders_of(text: str) -> list[str]:
    """What stands inside each `${...}`."""
    return _PLACEHOLDER.findall(text)


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with every `${name}` replaced by its value; a value is not looked into again."""
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


def environment_names(flows: Sequence[FlowStep]) -> list[str]:
    """The variables that `${env.NAME}` asks for, in order, each once."""
    texts = [step.do.text for step in flows if step.do is not None and step.do.text is not None]
    found = [name.removeprefix("env.") for text in texts for name in placeholders_of(text) if name.startswith("env.")]
    return list(dict.fromkeys(found))


def flow_conditions(steps: Sequence[FlowStep], at: str) -> Iterator[tuple[str, str]]:
    """(probe, path) of every probe that a flow asks for."""
    for index, step in enumerate(steps):
        for key in ("when", "expect"):
            for number, condition in enumerate(getattr(step, key)):
                yield condition.probe, f"{at}[{index}].{key}[{number}].probe"
        if step.do is not None and step.do.tap_match is not None:
            yield step.do.tap_match, f"{at}[{index}].do.tap_match"


def setup_problems(setup: SetupConfig | None, teardown: TeardownConfig | None, at: str) -> list[tuple[str, str]]:
    """(message, path) of what no single key shows, in one app's setup and teardown."""
    found: list[tuple[str, str]] = []
    has_account = setup is not None and setup.accounts is not None
    if setup is not None:
        found += flow_problems(setup.flow, f"{at}.setup.flow", has_account=has_account)
        found += [
            (f"{permission!r} is no name of a permission", f"{at}.setup.grant[{index}]")
            for index, permission in enumerate(setup.grant)
            if not _PERMISSION.fullmatch(permission)
        ]
        doubled = sorted({apk for apk in setup.install if setup.install.count(apk) > 1})
        found += [(f"{apk!r} stands twice", f"{at}.setup.install") for apk in doubled]
    if teardown is not None:
        found += flow_problems(teardown.flow, f"{at}.teardown.flow", has_account=has_account)
    return found


def flow_problems(steps: Sequence[FlowStep], at: str, *, has_account: bool) -> list[tuple[str, str]]:
    """(message, path) of doubled names, actions that are none or two, and texts that cannot be filled in."""
    found: list[tuple[str, str]] = []
    names: set[str] = set()
    for index, step in enumerate(steps):
        here = f"{at}[{index}]"
        if step.name in names:
            found.append((f"step {step.name!r} stands twice", f"{here}.name"))
        names.add(step.name)
        if step.do is None:
            if not step.when and not step.expect:
                found.append((f"step {step.name!r} does nothing and waits for nothing: give do, expect or when", here))
            continue
        found += [(problem, f"{here}.do") for problem in step.do.problems()]
        for name in placeholders_of(step.do.text or ""):
            problem = _placeholder_problem(name, has_account=has_account)
            if problem is not None:
                found.append((problem, f"{here}.do.text"))
    return found


def _placeholder_problem(name: str, *, has_account: bool) -> str | None:
    if name in {"account.user", "account.password"}:
        return None if has_account else f"'${{{name}}}' needs accounts = POOL in the app's setup"
    if name.startswith("env.") and re.fullmatch(_ENVIRONMENT_NAME["pattern"], name.removeprefix("env.")):
        return None
    return f"'${{{name}}}' is not known; known are ${{account.user}}, ${{account.password}} and ${{env.NAME}}"


def account_problems(accounts: Sequence[AccountConfig], wanted: Mapping[str, Collection[str]]) -> list[tuple[str, str]]:
    """(message, path) of doubled accounts and of pools that are not there.

    Args:
        accounts: All of them.
        wanted: Pool → the apps whose setup leases from it.
    """
    found: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    variables: dict[str, str] = {}
    for index, account in enumerate(accounts):
        if (account.pool, account.name) in seen:
            found.append((f"account {account.name!r} stands twice in pool {account.pool!r}", f"$.accounts[{index}]"))
        seen.add((account.pool, account.name))
        other = variables.setdefault(account.user_env, account.name)
        if other != account.name:
            message = f"{account.user_env} is the user of account {other!r} already: one game account, leased twice"
            found.append((message, f"$.accounts[{index}].user_env"))
    pools = {account.pool for account in accounts}
    for pool, apps in wanted.items():
        if pool not in pools:
            known = ", ".join(sorted(pools)) or "none"
            found += [
                (f"there is no pool of accounts {pool!r}; pools are {known}", f"$.apps.{app}.setup.accounts")
                for app in sorted(apps)
            ]
    return found
