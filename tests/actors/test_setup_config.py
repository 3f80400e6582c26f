"""Setups, accounts and needs_human in scenario files: every mistake at once, with its path."""

from pathlib import Path

import pytest

from actors.accounts import environment_problems
from actors.assets import load_assets
from actors.configuration import ScenarioError
from actors.scenario import Scenario, parse_scenario, warnings_for
from actors.setup_config import Reinstall, filled
from policies.flow import OnError
from policies.human import Resume
from tests.kit.gate_app import GATE_RULES
from tests.kit.setups import ACCOUNTS, BASE


def parsed(text: str) -> Scenario:
    return parse_scenario((BASE + text).encode(), "s.toml")


def problems_of(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parsed(text)
    return [f"{problem.message} @ {problem.path}" for problem in caught.value.problems]


def test_a_whole_setup_is_read() -> None:
    scenario = parsed(
        'needs_human = [{ probe = "captcha" }]\nresume = "auto"\nneeds_human_seconds = 60\n'
        '[apps.gate.setup]\naccounts = "main"\ninstall = ["base.apk", "de.apk"]\nreinstall = "always"\n'
        'grant = ["android.permission.CAMERA"]\nclear = true\n'
        '[[apps.gate.setup.flow]]\nname = "log in"\nwhen = [{ probe = "login" }]\ndo = { text = "${account.user}" }\n'
        'expect = [{ probe = "lobby", reads = "miss" }]\ntimeout_seconds = 3\nretries = 0\non_error = "needs_human"\n'
        "[apps.gate.teardown]\nclear = true\n" + ACCOUNTS
    )
    app = scenario.apps["gate"]

    assert app.setup is not None
    assert app.setup.install == ("base.apk", "de.apk")
    assert app.setup.reinstall is Reinstall.ALWAYS
    assert app.setup.flow[0].on_error is OnError.NEEDS_HUMAN
    assert app.teardown is not None
    assert (app.teardown.stop, app.teardown.clear, app.teardown.uninstall) == (True, True, False)
    assert app.human.resume is Resume.AUTO
    assert app.human.wait_seconds == 60
    assert app.human.when[0].probe == "captcha"


def test_all_mistakes_at_once() -> None:
    found = problems_of(
        '[apps.gate.setup]\naccounts = "mian"\ninstall = ["a.apk", "a.apk"]\ngrant = ["no permission"]\n'
        '[[apps.gate.setup.flow]]\nname = "a"\ndo = { text = "${account.pasword} ${env.9}" }\n'
        '[[apps.gate.setup.flow]]\nname = "a"\ndo = { key = "BACK", text = "x" }\n'
        '[[apps.gate.setup.flow]]\nname = "b"\n'
        '[[apps.gate.teardown.flow]]\nname = "c"\ndo = {}\n' + ACCOUNTS + ACCOUNTS
    )

    assert found == [
        "'${account.pasword}' is not known; known are ${account.user}, ${account.password} and ${env.NAME} @ "
        "$.apps.gate.setup.flow[0].do.text",
        "'${env.9}' is not known; known are ${account.user}, ${account.password} and ${env.NAME} @ "
        "$.apps.gate.setup.flow[0].do.text",
        "step 'a' stands twice @ $.apps.gate.setup.flow[1].name",
        "give exactly one of tap, tap_match, swipe, key, text; not key, text @ $.apps.gate.setup.flow[1].do",
        "step 'b' does nothing and waits for nothing: give do, expect or when @ $.apps.gate.setup.flow[2]",
        "'no permission' is no name of a permission @ $.apps.gate.setup.grant[0]",
        "'a.apk' stands twice @ $.apps.gate.setup.install",
        "give exactly one of tap, tap_match, swipe, key, text; not none @ $.apps.gate.teardown.flow[0].do",
        "account 'ann' stands twice in pool 'main' @ $.accounts[2]",
        "account 'bob' stands twice in pool 'main' @ $.accounts[3]",
        "there is no pool of accounts 'mian'; pools are main @ $.apps.gate.setup.accounts",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[apps.gate.setup]\nreinstal = "always"', "unknown key 'reinstal', did you mean 'reinstall'?"),
        ('[apps.gate.setup]\nreinstall = "never"', "'reinstall' must be one of missing, always"),
        ('[[accounts]]\npool = "m"\nname = "a"\nuser_env = "A"\npassword = "hunter2"', "unknown key 'password'"),
        (
            '[[accounts]]\npool = "m"\nname = "a"\nuser_env = "A B"\npassword_env = "P"',
            "'user_env' must be the name of an environment variable",
        ),
        (
            '[[apps.gate.setup.flow]]\nname = "a"\ndo = { text = "${account.user}" }',
            "'${account.user}' needs accounts = POOL in the app's setup",
        ),
        ('[[apps.gate.setup.flow]]\nname = "a"\ndo = { key = "BACK" }\nretries = -1', "'retries' must be >= 0"),
    ],
)
def test_each_mistake_says_how_to_mend_it(text: str, expected: str) -> None:
    assert any(expected in problem for problem in problems_of(text))


def test_one_game_account_is_not_leased_under_two_names() -> None:
    doubled = ACCOUNTS.replace("USER_B", "USER_A")

    assert problems_of(doubled) == [
        "USER_A is the user of account 'ann' already: one game account, leased twice @ $.accounts[1].user_env"
    ]


def test_too_few_accounts_is_a_warning_with_numbers() -> None:
    text = '[apps.gate.setup]\naccounts = "main"\naccount_wait_seconds = 90\n' + ACCOUNTS

    assert warnings_for(parsed(text)) == [
        (
            "pool 'main' has 2 accounts for 3 phones: 2 play at a time, the others wait for a free account, "
            "up to 90 s each",
            "$.accounts",
        )
    ]


def test_missing_variables_and_short_passwords_are_told_by_name_alone() -> None:
    scenario = parsed(
        '[[apps.gate.setup.flow]]\nname = "a"\ndo = { text = "${env.SERVER_CODE}" }\n' + ACCOUNTS,
    )
    environ = {"USER_A": "ann", "PASSWORD_A": "abc", "PASSWORD_B": "long enough"}

    assert [f"{p.message} @ {p.path}" for p in environment_problems(scenario, environ)] == [
        "PASSWORD_A is shorter than 4 characters: too short to be kept out of logs @ $.accounts[0].password_env",
        "environment variable USER_B is not set @ $.accounts[1].user_env",
        "environment variable SERVER_CODE is not set @ $.apps.gate.setup.flow",
    ]


def test_missing_apks_and_unknown_probes_are_all_reported(tmp_path: Path) -> None:
    (tmp_path / "gate.rules.toml").write_text(GATE_RULES)
    (tmp_path / "empty.apk").write_bytes(b"")
    (tmp_path / "base.apk").write_bytes(b"package=dev.corral.gate\n")
    scenario = parsed(
        'needs_human = [{ probe = "capcha" }]\n'
        '[apps.gate.setup]\ninstall = ["base.apk", "none.apk", "empty.apk", "."]\n'
        '[[apps.gate.setup.flow]]\nname = "a"\nwhen = [{ probe = "logn" }]\ndo = { tap_match = "lobi" }\n'
        '[[apps.gate.teardown.flow]]\nname = "b"\nexpect = [{ probe = "lobbi" }]\n'
    )

    with pytest.raises(ScenarioError) as caught:
        load_assets(scenario, tmp_path)

    assert [(p.message, p.path) for p in caught.value.problems] == [
        (f"there is no file {tmp_path}/none.apk", "$.apps.gate.setup.install[1]"),
        (f"{tmp_path}/empty.apk is empty", "$.apps.gate.setup.install[2]"),
        (f"there is no file {tmp_path}", "$.apps.gate.setup.install[3]"),
        ("gate.rules.toml has no probe 'capcha'", "$.apps.gate.needs_human[0].probe"),
        ("gate.rules.toml has no probe 'logn'", "$.apps.gate.setup.flow[0].when[0].probe"),
        ("gate.rules.toml has no probe 'lobi'", "$.apps.gate.setup.flow[0].do.tap_match"),
        ("gate.rules.toml has no probe 'lobbi'", "$.apps.gate.teardown.flow[0].expect[0].probe"),
    ]


def test_a_value_with_a_placeholder_in_it_is_not_filled_again() -> None:
    values = {"account.user": "${account.password}", "account.password": "s3cret"}

    assert filled("<${account.user}>", values) == "<${account.password}>"
