"""What a model said → actions in model coordinates, by the codec of its profile. Failures are values."""

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from inference.profile import JsonMapping, ModelProfile, ReplyCodec
from policies.action import Finish, Key, KeyName, LongPress, PlanStep, Swipe, Tap, Text, Wait
from policies.grammar import SWIPE_SECONDS, Grammar, Parsed, ReplyFailure, decode

LONG_PRESS_SECONDS = 1.0  # UI-TARS and some JSON formats state no time; Android's own long press is 0.5 s
SCROLL_SHARE = 0.3  # of the model's range: how far a `scroll` glides when the model states no end point


@attrs.frozen
class Reply:
    """A reply that held at least one action."""

    steps: tuple[PlanStep, ...]
    dropped: str = ""
    thinking: str = ""
    """Text between the profile's thinking marks, stripped before parsing."""


class _Unreadable(Exception):
    """An action that lacks a part, or is of no known kind; its text goes to the user."""


def grammar_for(profile: ModelProfile) -> Grammar:
    """The compact grammar within a profile's limits."""
    return Grammar(profile.max_actions, profile.max_text_length)


def split_thinking(text: str, marks: tuple[str, str]) -> tuple[str, str]:
    """(answer, thoughts). An opened thought that never ends is all thought; a lone end mark ends an opened one."""
    start, end = marks
    if not start or not end:
        return text, ""
    answer, thoughts = [], []
    rest = text
    if end in rest and (start not in rest or rest.index(end) < rest.index(start)):
        thought, _, rest = rest.partition(end)  # the chat template had opened it in the prompt
        thoughts.append(thought)
    while start in rest:
        before, _, rest = rest.partition(start)
        answer.append(before)
        thought, closed, rest = rest.partition(end)
        thoughts.append(thought)
        if not closed:
            rest = ""
    return "".join([*answer, rest]), "".join(thoughts)


def parse_reply(text: str, profile: ModelProfile, *, cut: bool = False) -> Reply | ReplyFailure:
    """Read a reply in the profile's language.

    Args:
        text: What the model said.
        profile: Names the codec and its limits.
        cut: The token limit ended the reply, so its last action may be half an action.

    Returns:
        The actions in model coordinates, at most `profile.max_actions`; or why there are none.
    """
    answer, thinking = split_thinking(text, profile.thinking)
    if profile.codec is ReplyCodec.COMPACT:
        parsed = decode(answer, grammar_for(profile), cut=cut)
    else:
        parsed = _collect(_CODECS[profile.codec](answer, profile), answer, profile.max_actions)
    if isinstance(parsed, ReplyFailure):
        return parsed
    return Reply(parsed.steps, parsed.dropped, thinking)


def _collect(steps: Iterable[PlanStep], answer: str, limit: int) -> Parsed | ReplyFailure:
    """The steps up to the first unreadable one, or up to the limit."""
    kept: list[PlanStep] = []
    dropped = ""
    try:
        for step in steps:
            if len(kept) == limit:
                dropped = f"more than {limit} actions"
                break
            kept.append(step)
    except _Unreadable as error:
        dropped = str(error)
    if not kept:
        return ReplyFailure(dropped or "no action in the reply", answer[:200])
    return Parsed(tuple(kept), dropped)


# --- Qwen3-VL: <tool_call>{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [x, y]}}</tool_call>

_TOOL_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


def _qwen_steps(answer: str, profile: ModelProfile) -> Iterable[PlanStep]:
    del profile
    for match in _TOOL_CALL.finditer(answer):
        arguments = _object(match.group(1)).get("arguments")
        if not isinstance(arguments, dict):
            raise _Unreadable(f"tool call without arguments: {match.group(1)[:80]}")
        yield _qwen_step(arguments)


def _qwen_step(arguments: Mapping[str, Any]) -> PlanStep:
    match arguments.get("action"):
        case "click" | "left_click" | "tap":
            return Tap(*_pair(arguments, "coordinate"))
        case "long_press":
            return LongPress(*_pair(arguments, "coordinate"), _seconds(arguments.get("time"), LONG_PRESS_SECONDS))
        case "swipe" | "drag":
            return Swipe(*_pair(arguments, "coordinate"), *_pair(arguments, "coordinate2"), SWIPE_SECONDS)
        case "type":
            return _text(arguments.get("text"))
        case "wait":
            return Wait(_seconds(arguments.get("time"), 1.0))
        case "system_button":
            return _button(arguments.get("button"))
        case "key":
            return _button(arguments.get("text"))
        case "terminate":
            return Finish(arguments.get("status") == "success")
        case "answer":
            return Finish(success=True)
        case other:
            raise _Unreadable(f"unknown action {other!r}")


# --- UI-TARS: Thought: ... Action: click(start_box='(x,y)')

_CALL = re.compile(r"([a-z_]+)\(([^\n]*)\)")
_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")


def _ui_tars_steps(answer: str, profile: ModelProfile) -> Iterable[PlanStep]:
    across = down = 1000
    if profile.coordinates != "per_mille":
        across = down = profile.max_side
    _, marker, actions = answer.rpartition("Action:")
    for line in (actions if marker else answer).splitlines():
        match = _CALL.search(line)
        if match is None:
            continue
        yield _ui_tars_step(match.group(1), _call_arguments(match.group(2)), across, down)


def _call_arguments(text: str) -> dict[str, str]:
    """`start_box='(1,2)', content='a'` → a dict; only literal strings are taken, nothing is evaluated."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise _Unreadable(f"unreadable arguments: {text[:80]}") from error
    assert isinstance(call, ast.Call)
    return {
        keyword.arg: keyword.value.value
        for keyword in call.keywords
        if keyword.arg and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
    }


def _ui_tars_step(name: str, arguments: Mapping[str, str], across: int, down: int) -> PlanStep:
    def box(*keys: str) -> tuple[int, int]:
        for key in keys:
            numbers = [float(n) for n in _NUMBERS.findall(arguments.get(key, ""))]
            if len(numbers) == 2:
                return round(numbers[0]), round(numbers[1])
            if len(numbers) == 4:  # two corners: the middle is meant
                return round((numbers[0] + numbers[2]) / 2), round((numbers[1] + numbers[3]) / 2)
        raise _Unreadable(f"{name} without a point")

    match name:
        case "click" | "left_single" | "tap":
            return Tap(*box("start_box", "point"))
        case "long_press":
            return LongPress(*box("start_box", "point"), LONG_PRESS_SECONDS)
        case "drag" | "swipe":
            return Swipe(*box("start_box", "start_point"), *box("end_box", "end_point"), SWIPE_SECONDS)
        case "scroll":
            x, y = box("start_box", "point")
            return _scroll(x, y, arguments.get("direction", ""), across, down)
        case "type":
            return _text(arguments.get("content"))
        case "press_home":
            return Key(KeyName.HOME)
        case "press_back":
            return Key(KeyName.BACK)
        case "wait":
            return Wait(1.0)
        case "finished":
            return Finish(success=True)
        case _:
            raise _Unreadable(f"unknown action {name!r}")


def _scroll(x: int, y: int, direction: str, across: int, down: int) -> Swipe:
    """Scrolling down shows what is further down, so the finger goes up."""
    step_x, step_y = round(across * SCROLL_SHARE), round(down * SCROLL_SHARE)
    moves = {"down": (0, -step_y), "up": (0, step_y), "right": (-step_x, 0), "left": (step_x, 0)}
    if direction not in moves:
        raise _Unreadable(f"scroll in direction {direction!r}")
    dx, dy = moves[direction]
    to_x, to_y = min(max(x + dx, 0), across - 1), min(max(y + dy, 0), down - 1)
    return Swipe(x, y, to_x, to_y, SWIPE_SECONDS)


# --- any JSON, by the mapping that the profile declares


def _json_steps(answer: str, profile: ModelProfile) -> Iterable[PlanStep]:
    mapping = profile.json_mapping
    start = min((i for i in (answer.find("{"), answer.find("[")) if i >= 0), default=-1)
    if start < 0:
        raise _Unreadable("no JSON in the reply")
    try:
        value, _ = json.JSONDecoder().raw_decode(answer, start)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"not JSON: {error}") from error
    actions = value.get(mapping.actions_key, [value]) if isinstance(value, dict) else value
    if isinstance(actions, dict):
        actions = [actions]
    if not isinstance(actions, list):
        raise _Unreadable(f"{mapping.actions_key!r} is not a list")
    for action in actions:
        if not isinstance(action, dict):
            raise _Unreadable(f"not an action: {str(action)[:80]}")
        yield _json_step(action, mapping)


def _json_step(action: Mapping[str, Any], mapping: JsonMapping) -> PlanStep:
    def point(x_key: str, y_key: str) -> tuple[int, int]:
        x, y = action.get(x_key), action.get(y_key)
        if isinstance(x, list) and len(x) == 2:  # {"x": [447, 81]}: the pair stands under one key
            x, y = x
        return _number(x, x_key), _number(y, y_key)

    verb = action.get(mapping.verb_key)
    match mapping.verbs.get(verb) if isinstance(verb, str) else None:
        case "tap":
            return Tap(*point(mapping.x_key, mapping.y_key))
        case "long_press":
            seconds = _seconds(action.get(mapping.seconds_key), LONG_PRESS_SECONDS)
            return LongPress(*point(mapping.x_key, mapping.y_key), seconds)
        case "swipe":
            start, end = point(mapping.x_key, mapping.y_key), point(mapping.to_x_key, mapping.to_y_key)
            return Swipe(*start, *end, SWIPE_SECONDS)
        case "text":
            return _text(action.get(mapping.text_key))
        case "wait":
            return Wait(_seconds(action.get(mapping.seconds_key), 1.0))
        case "back":
            return Key(KeyName.BACK)
        case "home":
            return Key(KeyName.HOME)
        case "done":
            return Finish(success=True)
        case "fail":
            return Finish(success=False)
        case _:
            raise _Unreadable(f"unknown action {verb!r}")


# --- parts that several codecs share


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"not JSON: {text[:80]}") from error
    if not isinstance(value, dict):
        raise _Unreadable(f"not a JSON object: {text[:80]}")
    return value


def _number(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e6:
        raise _Unreadable(f"{key!r} is not a number: {str(value)[:40]}")
    return round(value)


def _pair(arguments: Mapping[str, Any], key: str) -> tuple[int, int]:
    value = arguments.get(key)
    if not isinstance(value, list) or len(value) != 2:
        raise _Unreadable(f"{key!r} is not a pair of numbers: {str(value)[:40]}")
    return _number(value[0], key), _number(value[1], key)


def _seconds(value: object, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return default
    return min(float(value), 9.9)


def _text(value: object) -> Text:
    if not isinstance(value, str) or not value:
        raise _Unreadable("no text to type")
    return Text(value)


def _button(value: object) -> Key:
    names = {"back": KeyName.BACK, "home": KeyName.HOME, "enter": KeyName.ENTER, "menu": KeyName.APP_SWITCH}
    name = names.get(value.lower()) if isinstance(value, str) else None
    if name is None:
        raise _Unreadable(f"unknown button {value!r}")
    return Key(name)


_CODECS: dict[ReplyCodec, Callable[[str, ModelProfile], Iterable[PlanStep]]] = {
    ReplyCodec.QWEN_TOOL_CALL: _qwen_steps,
    ReplyCodec.UI_TARS: _ui_tars_steps,
    ReplyCodec.JSON: _json_steps,
}
