"""Tokens of actions are counted by Qwen's own vocabulary, and the documents say what was counted."""

import base64
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli.main import corral
from actors.token_table import (
    COMPACT_ACTIONS,
    OTHER_TAPS,
    NoVocabulary,
    bundled_vocabulary,
    encoder_for,
    markdown_for,
    token_rows,
)
from inference.profile import ModelProfile
from policies.grammar import Grammar, Parsed, decode

ROOT = Path(__file__).parents[2]


def test_a_digit_is_a_token_and_a_tap_is_eight() -> None:
    rows = {row.what: row.tokens for row in token_rows(encoder_for(bundled_vocabulary()), COMPACT_ACTIONS)}

    assert rows["tap"] == 8 + 1
    assert rows["five swipes"] <= ModelProfile().max_tokens
    assert rows["three taps"] <= 27, "below 500 ms on the design's A100"


def test_what_is_counted_is_what_the_grammar_takes() -> None:
    for what, text in COMPACT_ACTIONS:
        assert isinstance(decode(text, Grammar()), Parsed), what


def test_the_compact_grammar_is_the_shortest() -> None:
    count = encoder_for(bundled_vocabulary())
    compact = token_rows(count, COMPACT_ACTIONS)[0].tokens

    assert all(row.tokens > compact for row in token_rows(count, OTHER_TAPS))


def test_the_document_says_what_is_counted() -> None:
    rows = token_rows(encoder_for(bundled_vocabulary()), (*COMPACT_ACTIONS, *OTHER_TAPS))

    assert markdown_for(rows) in (ROOT / "docs" / "model-profiles.md").read_text("utf-8")


def test_the_command_prints_it_and_refuses_what_is_no_vocabulary(tmp_path: Path) -> None:
    done = CliRunner().invoke(corral, ["model", "tokens", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[0])["tokens"] == 9
    assert "swipe" in CliRunner().invoke(corral, ["model", "tokens"]).stdout

    nonsense = tmp_path / "v.tiktoken"
    for text, said in (("hello\n", ":1: not a token"), ("QQ== 1\n", "lacks single bytes"), ("", "lacks single bytes")):
        nonsense.write_text(text)
        refused = CliRunner().invoke(corral, ["model", "tokens", "--vocabulary", str(nonsense)])
        assert refused.exit_code == 2
        assert said in refused.output
    gone = CliRunner().invoke(corral, ["model", "tokens", "--vocabulary", str(tmp_path / "no")])
    assert gone.exit_code == 2


def test_another_vocabulary_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "bytes.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([value])) + b" %d\n" % value for value in range(256)))

    assert encoder_for(path)("T447,081") == 8
    with pytest.raises(NoVocabulary):
        encoder_for(tmp_path)
