import json

import pytest

from actors.app_control import start_app
from actors.configuration import ScenarioError
from actors.scenario import parse_scenario
from tests.kit.pretend_phone import PretendPhone

SCENARIO = """
name = "short"
[planner]
enabled = false
[apps.game]
package = "dev.corral.gate"
activity = {activity}
goal = "Play."
[[phones]]
kind = "simulated"
app = "battler"
"""


@pytest.mark.parametrize("activity", [".Main;reboot", "$(reboot)", "a b", "'", "../x", ""])
def test_an_activity_is_a_name_and_no_command_of_the_phones_shell(activity: str) -> None:
    with pytest.raises(ScenarioError, match="'activity' must be the name of an activity"):
        parse_scenario(SCENARIO.format(activity=json.dumps(activity)).encode())


async def test_an_inner_class_is_no_variable_of_the_shell() -> None:
    text = SCENARIO.format(activity='".Main$Inner"').replace('app = "battler"', 'app = "game"')
    phone = PretendPhone()

    await start_app(phone, parse_scenario(text.encode()).apps["game"])

    assert phone.done[-1] == "am start -n 'dev.corral.gate/.Main$Inner'"
