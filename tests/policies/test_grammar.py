"""The compact grammar: what is encoded is decoded, and both constraints describe exactly that language."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.action import Finish, Key, KeyName, LongPress, PlanStep, Swipe, Tap, Text, TwoFingers, Wait
from policies.grammar import Grammar, Parsed, ReplyFailure, decode, ebnf_for, encode, max_length, regex_for

coordinate = st.integers(0, 999)
tenths = st.integers(0, 99).map(lambda t: t / 10)
text = st.text(st.characters(exclude_characters='"\\\r\n\t', exclude_categories=["Cs"]), min_size=1, max_size=32)
steps: st.SearchStrategy[PlanStep] = st.one_of(
    st.builds(Tap, coordinate, coordinate),
    st.builds(LongPress, coordinate, coordinate, tenths),
    st.builds(Swipe, coordinate, coordinate, coordinate, coordinate, st.just(0.2)),
    st.builds(Wait, tenths),
    st.sampled_from([Key(KeyName.BACK), Key(KeyName.HOME)]),
    st.builds(Text, text),
    st.builds(Finish, st.booleans()),
)


@given(st.lists(steps, min_size=1, max_size=5))
def test_encoded_steps_decode_to_themselves_and_satisfy_the_regex(plan: list[PlanStep]) -> None:
    reply = encode(plan)

    assert re.fullmatch(regex_for(Grammar()), reply)
    assert decode(reply, Grammar()) == Parsed(tuple(plan))
    assert len(reply) <= max_length(Grammar())


@given(st.from_regex(regex_for(Grammar(max_text_length=8)), fullmatch=True))
def test_whatever_the_regex_lets_through_decodes_without_a_rest(reply: str) -> None:
    parsed = decode(reply, Grammar())

    assert isinstance(parsed, Parsed)
    assert parsed.dropped == ""
    assert encode(parsed.steps) == reply


@pytest.mark.parametrize(
    ("reply", "expected", "dropped"),
    [
        ("T447,081;W0", (Tap(447, 81), Wait(0.0)), ""),
        ("T447,081;S10", (Tap(447, 81),), "S10"),
        ("T447,081;L500", (Tap(447, 81),), "L500"),
        ("Sure! T 44, 81 ; B", (Tap(44, 81), Key(KeyName.BACK)), ""),
        ("```\nT447,081\n```", (Tap(447, 81),), "```"),
        ("T1200,081", (Tap(1200, 81),), ""),
        ("B;B;B;B;B;B", (Key(KeyName.BACK),) * 5, "B"),
        ('K"茶;tea"', (Text("茶;tea"),), ""),
    ],
)
def test_replies_of_unconstrained_models(reply: str, expected: tuple[PlanStep, ...], dropped: str) -> None:
    assert decode(reply, Grammar()) == Parsed(expected, dropped)


@pytest.mark.parametrize(
    ("reply", "expected", "dropped"),
    [
        ("T447,081;T447,08", (Tap(447, 81),), "T447,08"),
        ("T447,081;", (Tap(447, 81),), ""),
        ("T447,081;W", (Tap(447, 81),), "W"),
    ],
)
def test_a_reply_cut_by_the_token_limit_loses_its_last_action(
    reply: str, expected: tuple[PlanStep, ...], dropped: str
) -> None:
    assert decode(reply, Grammar(), cut=True) == Parsed(expected, dropped)


def test_a_cut_reply_with_no_whole_action_is_a_failure() -> None:
    assert isinstance(decode("T447,08", Grammar(), cut=True), ReplyFailure)


@pytest.mark.parametrize("reply", ["", "I cannot help with that", "T447", "X7", "Tap the button", "H2O is water"])
def test_a_reply_without_an_action_is_a_failure(reply: str) -> None:
    assert isinstance(decode(reply, Grammar()), ReplyFailure)


@pytest.mark.parametrize(
    "step",
    [Tap(1000, 0), Tap(0, -1), Wait(10.0), Text('a"b'), Text(""), TwoFingers((0, 0, 1, 1), (2, 2, 3, 3))],
)
def test_what_the_grammar_cannot_say_is_refused(step: PlanStep) -> None:
    with pytest.raises(ValueError, match=r"outside|cannot say"):
        encode([step])


def test_ebnf_names_every_verb_of_the_regex() -> None:
    grammar = ebnf_for(Grammar(max_actions=3, max_text_length=0))

    assert grammar == (
        'root ::= action (";" action){0,2}\n'
        'action ::= "T" [0-9] [0-9] [0-9] "," [0-9] [0-9] [0-9]'
        ' | "L" [0-9] [0-9] [0-9] "," [0-9] [0-9] [0-9] "," [0-9] [0-9]'
        ' | "S" [0-9] [0-9] [0-9] "," [0-9] [0-9] [0-9] "," [0-9] [0-9] [0-9] "," [0-9] [0-9] [0-9]'
        ' | "W" [0-9] [0-9] | "B" | "H" | "X" [01]\n'
    )
