"""What may be submitted: names of scenarios, or a text that can do nothing but play."""

from typing import Any

import pytest

from actors.configuration import ScenarioError
from actors.farm.inline import inline_problems
from actors.farm.submission import parse_submission, work_for
from actors.farm.work import OnInterrupt
from runtime.ids import TenantId
from tests.kit.scenarios import SCENARIOS

TEXT = """
name = "mine"
[limits]
seconds = 5
[planner]
enabled = false
[apps.battler]
package = "dev.corral.battler"
goal = "Survive."
score = { kind = "logcat", pattern = "score=([0-9]+)" }
[[phones]]
kind = "simulated"
app = "battler"
bot = "random"
count = 3
"""


def refused(body: dict[str, Any]) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_submission(body)
    return [str(problem) for problem in caught.value.problems]


def test_a_text_that_only_plays_is_taken() -> None:
    work = work_for(parse_submission({"text": TEXT}), TEXT.encode(), tenant=TenantId("games"), user="ann")

    assert (work.scenario, work.phones, work.tenant, work.text) == ("mine", 3, "games", TEXT)


@pytest.mark.parametrize(
    "hostile",
    [
        '[apps.x]\nrules = "../../etc/passwd"',
        '[apps.x]\nscore = { kind = "command", command = "rm -rf /sdcard", pattern = "(1)" }',
        '[apps.x]\nscore = { kind = "http", url = "http://169.254.169.254/", pattern = "(1)" }',
        '[apps.x.setup]\ninstall = ["/etc/shadow"]',
        '[[apps.x.setup.flow]]\nname = "leak"\ndo = { text = "${env.CORRAL_TOKEN}" }',
        '[apps.x]\nplanner = { profile = "/etc/hostname.toml" }',
        'planner = { profile = "../x.toml" }',
        '[[engines]]\nid = "e"\nlaunch = { kind = "command", args = ["sh", "-c", "id"] }',
        '[[engines]]\nid = "e"\nurl = "http://10.0.0.1"\napi_key_env = "SECRET"',
        '[[accounts]]\npool = "p"\nname = "n"\nuser_env = "HOME"\npassword_env = "PATH"',
        '[[phones]]\nkind = "adb"\naddresses = ["10.0.0.9:5555"]\napp = "x"',
        '[[phones]]\nkind = "replay"\nsource = "/var/log"\napp = "x"',
        '[[phones]]\nkind = "simulated"\napp = "x"\nscrcpy_server = "/etc/passwd"',
        'tenant = "other"',
        "[tenants.other]\nweight = 1e9",
        "[record]\npixels = true",
        '[apps.x]\nactivity = ".Main; rm -rf /sdcard"',
        '[apps.x]\nactivity = "$(reboot)"',
        '[vendor]\nacquire = ["sh"]',
        '[something_new]\npath = "/"',
        'name = { path = "/" }',
        "not toml",
        'name = "' + "x" * (65 << 10) + '"',
    ],
)
def test_a_text_that_names_anything_else_is_refused(hostile: str) -> None:
    assert inline_problems(hostile)
    assert refused({"text": hostile})


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "a/b", "..", ".hidden", "", "x" * 81, "a\x00b", "quick start", "scénario"]
)
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    assert refused({"scenario": name})


def test_all_mistakes_of_a_body_at_once() -> None:
    told = refused({"scenario": "x", "priority": 10, "repeats": -1, "daily": {"at": "25:00"}, "lables": []})

    assert len(told) == 4, told
    assert any("did you mean 'labels'?" in one for one in told)
    told = refused(
        {
            "text": TEXT,
            "scenario": "x",
            "not_before": "tomorrow",
            "labels": ["a b"],
            "daily": {"at": "03:00", "zone": "X/Y"},
        }
    )
    assert len(told) == 5, told


def test_a_named_scenario_counts_its_phones_and_its_tenant_is_the_tokens() -> None:
    found = parse_submission(
        {
            "scenario": "quickstart",
            "not_before": "2027-01-31T22:00:00+08:00",
            "labels": ["b", "a", "a"],
            "on_interrupt": "fail",
        }
    )

    work = work_for(found, (SCENARIOS / "quickstart.toml").read_bytes(), tenant=TenantId("games"), user="ann")

    assert (work.phones, work.labels, work.not_before) == (8, ("a", "b"), 1_801_404_000.0)
    assert work.on_interrupt is OnInterrupt.FAIL
    assert work.text is None


def test_recorded_pictures_are_no_phones_of_a_farm() -> None:
    source = TEXT.replace('kind = "simulated"', 'kind = "replay"').replace("count = 3", 'source = "pictures"').encode()

    with pytest.raises(ScenarioError, match="recorded pictures"):
        work_for(parse_submission({"scenario": "x"}), source, tenant=TenantId("games"), user="ann")
