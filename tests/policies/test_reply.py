"""Replies in each codec: what they say, and what is a failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.profile import JsonMapping, ModelProfile, ReplyCodec
from policies.action import Finish, Key, KeyName, LongPress, PlanStep, Swipe, Tap, Text, Wait
from policies.grammar import ReplyFailure
from policies.reply import Reply, parse_reply, split_thinking

QWEN = ModelProfile(codec=ReplyCodec.QWEN_TOOL_CALL)
TARS = ModelProfile(codec=ReplyCodec.UI_TARS)
JSON = ModelProfile(codec=ReplyCodec.JSON)


def call(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "mobile_use", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"action": "click", "coordinate": [447, 81]}', Tap(447, 81)),
        ('{"action": "long_press", "coordinate": [1, 2], "time": 2}', LongPress(1, 2, 2.0)),
        ('{"action": "swipe", "coordinate": [1, 2], "coordinate2": [3, 4]}', Swipe(1, 2, 3, 4, 0.2)),
        ('{"action": "type", "text": "茶"}', Text("茶")),
        ('{"action": "system_button", "button": "Back"}', Key(KeyName.BACK)),
        ('{"action": "wait", "time": 3}', Wait(3.0)),
        ('{"action": "terminate", "status": "success"}', Finish(success=True)),
        ('{"action": "terminate", "status": "failure"}', Finish(success=False)),
    ],
)
def test_qwen_tool_calls(arguments: str, expected: PlanStep) -> None:
    assert parse_reply("Thought: I see.\n" + call(arguments), QWEN) == Reply((expected,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Thought: x\nAction: click(start_box='(447,81)')", Tap(447, 81)),
        ("Action: click(point='<point>447 81</point>')", Tap(447, 81)),
        ("Action: click(start_box='(10,20,30,40)')", Tap(20, 30)),
        ("Action: long_press(start_box='(1,2)')", LongPress(1, 2, 1.0)),
        ("Action: drag(start_box='(1,2)', end_box='(3,4)')", Swipe(1, 2, 3, 4, 0.2)),
        ("Action: scroll(start_box='(500,500)', direction='down')", Swipe(500, 500, 500, 200, 0.2)),
        ("Action: type(content='it\\'s')", Text("it's")),
        ("Action: press_back()", Key(KeyName.BACK)),
        ("Action: finished(content='done')", Finish(success=True)),
    ],
)
def test_ui_tars_actions(text: str, expected: PlanStep) -> None:
    assert parse_reply(text, TARS) == Reply((expected,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"think": "hm", "action": "tap", "x": 447, "y": 81}', (Tap(447, 81),)),
        (
            '```json\n[{"action": "tap", "x": 1, "y": 2}, {"action": "wait", "seconds": 0.5}]\n```',
            (Tap(1, 2), Wait(0.5)),
        ),
        ('{"actions": [{"action": "swipe", "x": 1, "y": 2, "x2": 3, "y2": 4}]}', (Swipe(1, 2, 3, 4, 0.2),)),
        ('{"action": "click", "x": [447, 81]}', (Tap(447, 81),)),
    ],
)
def test_json_replies(text: str, expected: tuple[PlanStep, ...]) -> None:
    assert parse_reply(text, JSON) == Reply(expected)


def test_the_json_mapping_is_the_profiles() -> None:
    mapping = JsonMapping(actions_key="plan", verb_key="op", x_key="px", y_key="py", verbs={"press": "tap"})
    profile = ModelProfile(codec=ReplyCodec.JSON, json_mapping=mapping)

    assert parse_reply('{"plan": [{"op": "press", "px": 5, "py": 6}]}', profile) == Reply((Tap(5, 6),))


def test_actions_before_an_unreadable_one_are_kept() -> None:
    reply = parse_reply(call('{"action": "click", "coordinate": [1, 2]}') + call('{"action": "fly"}'), QWEN)

    assert reply == Reply((Tap(1, 2),), "unknown action 'fly'")


@pytest.mark.parametrize(
    ("profile", "text", "reason"),
    [
        (QWEN, "no call", "no action"),
        (QWEN, call('{"action": "click", "coordinate": [1]}'), "pair of numbers"),
        (QWEN, call('{"action": "click", "coordinate": [true, 1]}'), "not a number"),
        (QWEN, "<tool_call>{broken}</tool_call>", "not JSON"),
        (TARS, "Action: click(start_box=__import__('os'))", "without a point"),
        (TARS, "Action: fly()", "unknown action"),
        (JSON, "hello", "no JSON"),
        (JSON, '{"action": "tap", "x": 1e9, "y": 2}', "not a number"),
        (JSON, '{"actions": 5}', "not a list"),
        (JSON, "[" * 5000, "not JSON"),
    ],
)
def test_what_holds_no_action_is_a_failure_with_its_reason(profile: ModelProfile, text: str, reason: str) -> None:
    failure = parse_reply(text, profile)

    assert isinstance(failure, ReplyFailure)
    assert reason in failure.reason


@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        ("<think>tap it</think>T447,081", "T447,081", "tap it"),
        ("tap it</think>T447,081", "T447,081", "tap it"),
        ("<think>never ends T447,081", "", "never ends T447,081"),
        ("<think>a</think>T1<think>b</think>,", "T1,", "ab"),
        ("T447,081", "T447,081", ""),
    ],
)
def test_thoughts_are_stripped_and_kept_apart(text: str, answer: str, thoughts: str) -> None:
    assert split_thinking(text, ("<think>", "</think>")) == (answer, thoughts)


@given(st.text(max_size=200), st.sampled_from([ModelProfile(), QWEN, TARS, JSON]), st.booleans())
def test_no_text_whatever_raises(text: str, profile: ModelProfile, cut: bool) -> None:
    reply = parse_reply(text, profile, cut=cut)

    assert isinstance(reply, ReplyFailure) or 0 < len(reply.steps) <= profile.max_actions
