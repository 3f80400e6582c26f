from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from actors.assets import BUNDLED_PROFILES, bundled_profile, load_profile, parse_profile
from actors.configuration import ScenarioError
from actors.modelcheck import judge, request_for
from actors.profiles.checks import longest_reply_tokens, profile_problems, profile_warnings
from inference.profile import JsonMapping, ModelProfile, PromptLayout, ReplyCodec
from policies.action import Swipe, Tap, Text
from policies.grammar import Grammar, encode, max_length
from policies.reply import Reply, parse_reply

# One reply in each bundled profile's own language: (reply, kind of the first action, its first point).
PUBLISHED = {
    "compact": ("T447,081;W03", "Tap", (447, 81)),
    "qwen3-vl": (
        '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [447, 81]}}\n</tool_call>',
        "Tap",
        (447, 81),
    ),
    "qwen2.5-vl": (
        '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "swipe", "coordinate": [360, 900], '
        '"coordinate2": [360, 300]}}\n</tool_call>',
        "Swipe",
        (360, 900),
    ),
    "ui-tars-1.5": (
        "Thought: The chest is open.\nAction: click(start_box='<|box_start|>(355,610)<|box_end|>')",
        "Tap",
        (355, 610),
    ),
    "internvl3.5": ('{"actions": [{"action": "swipe", "point": [500, 800], "end": [500, 200]}]}', "Swipe", (500, 800)),
    "json-example": ('{"think": "the chest is open", "act": "tap", "x": 355, "y": 610}', "Tap", (355, 610)),
}


@pytest.mark.parametrize("name", BUNDLED_PROFILES)
def test_bundled_profiles_have_no_mistake_no_doubt_and_their_own_name(name: str) -> None:
    profile = load_profile(name, Path())

    assert profile.name == name
    assert (profile_problems(profile), profile_warnings(profile)) == ([], [])


@pytest.mark.parametrize("name", BUNDLED_PROFILES)
def test_a_bundled_profile_reads_what_its_model_is_asked_to_write(name: str) -> None:
    text, kind, point = PUBLISHED[name]
    reply = parse_reply(text, load_profile(name, Path()))

    assert isinstance(reply, Reply)
    (first, *_) = reply.steps
    assert (type(first).__name__, attrs.astuple(first)[:2]) == (kind, point)


def test_the_compact_profile_is_the_default_and_says_so_in_every_key() -> None:
    assert load_profile("compact", Path()) == ModelProfile()


def test_conventions_of_the_models_that_we_know() -> None:
    profiles = {name: load_profile(name, Path()) for name in BUNDLED_PROFILES}
    facts = {name: (p.coordinates, p.resize_factor, p.codec, p.layout, p.constrained) for name, p in profiles.items()}
    sliding = PromptLayout.SLIDING
    assert facts == {
        "compact": ("per_mille", 28, ReplyCodec.COMPACT, sliding, True),
        "qwen3-vl": ("per_mille", 32, ReplyCodec.QWEN_TOOL_CALL, sliding, False),
        "qwen2.5-vl": ("smart_resized", 28, ReplyCodec.QWEN_TOOL_CALL, sliding, False),
        "ui-tars-1.5": ("smart_resized", 28, ReplyCodec.UI_TARS, PromptLayout.APPEND, False),
        "internvl3.5": ("per_mille", 28, ReplyCodec.JSON, sliding, False),
        "json-example": ("absolute", 28, ReplyCodec.JSON, sliding, False),
    }


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"coordinates": "absolute"}, "$.coordinates", "per_mille"),
        ({"max_tokens": 15, "max_text_length": 0}, "$.max_tokens", "cannot hold one action"),
        ({"min_pixels": 10, "max_pixels": 9}, "$.min_pixels", "more than max_pixels"),
        ({"thinking": ("<think>", "")}, "$.thinking", "both marks"),
        ({"stop": ("",)}, "$.stop", "empty"),
        ({"query": "Goal: {goal} {previous}"}, "$.query", "{previous} is never filled in"),
        ({"history_line": "{step} {goal}"}, "$.history_line", "{goal} is never filled in"),
        ({"system": "Reach {goal}."}, "$.system", "{goal} is not filled in here"),
        (
            {"codec": ReplyCodec.JSON, "json_mapping": JsonMapping(verbs={"hit": "touch"})},
            "$.json_mapping.verbs.hit",
            "none of our verbs",
        ),
        ({"codec": ReplyCodec.JSON, "json_mapping": JsonMapping(verbs={})}, "$.json_mapping.verbs", "empty"),
    ],
)
def test_problems(changes: dict[str, Any], path: str, words: str) -> None:
    found = profile_problems(attrs.evolve(ModelProfile(), **changes))

    assert [p for _, p in found] == [path]
    assert words in found[0][0]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"max_tokens": 64}, "$.max_tokens"),
        ({"query": "What now?"}, "$.query"),
        ({"json_mapping": JsonMapping(verb_key="act")}, "$.json_mapping"),
    ],
)
def test_warnings(changes: dict[str, Any], path: str) -> None:
    profile = attrs.evolve(ModelProfile(), **changes)

    assert profile_problems(profile) == []
    assert [p for _, p in profile_warnings(profile)] == [path]


def test_the_bound_of_a_compact_reply_is_reached_and_not_passed() -> None:
    profile = attrs.evolve(ModelProfile(), max_actions=3, max_text_length=20)
    swipe = Swipe(100, 200, 300, 400)
    longest = encode([swipe, swipe, Text("x" * 20)])

    assert longest_reply_tokens(profile, max_actions=3) == len(longest)
    assert longest_reply_tokens(attrs.evolve(profile, max_text_length=0), max_actions=3) == max_length(Grammar(3, 0))


def test_every_mistake_of_a_file_comes_with_its_line() -> None:
    source = b'name = "mine"\ncoordinates = "absolute"\nquery = "{what}"\n'
    with pytest.raises(ScenarioError) as caught:
        parse_profile(source, "mine.toml")

    assert [(p.path, p.line, p.file) for p in caught.value.problems] == [
        ("$.coordinates", 2, "mine.toml"),
        ("$.query", 3, "mine.toml"),
    ]


def test_a_users_own_file_is_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(bundled_profile("json-example").replace(b"json-example", b"mine"))

    assert load_profile("mine.toml", tmp_path).name == "mine"


def test_an_unknown_name_lists_the_known_ones_and_guesses() -> None:
    with pytest.raises(ScenarioError, match=r"did you mean 'qwen3-vl'\?.*ui-tars-1\.5"):
        load_profile("qwen3vl", Path())


def test_the_documents_name_every_key_and_the_worked_example_does_what_it_says() -> None:
    text = (Path(__file__).parents[3] / "docs" / "model-profiles.md").read_text("utf-8")
    keys = [field.name for field in (*attrs.fields(ModelProfile), *attrs.fields(JsonMapping))]
    example = text.partition("```toml\n")[2].partition("```")[0]
    profile = parse_profile(example.encode(), "chest-7b.toml")
    request = request_for(np.zeros((1280, 720, 3), dtype=np.uint8), profile, "g")
    verdict = judge('{"think": "the chest is open", "act": "tap", "x": 355, "y": 610}', request, profile)

    assert [key for key in keys if f"`{key}`" not in text and f"[{key}]" not in text] == []
    assert [look.lands for look in verdict.looks] == [Tap(474, 814)]
    assert all(f"`{name}`" in text for name in BUNDLED_PROFILES)
