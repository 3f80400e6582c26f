"""What can be wrong with a model profile beyond a single key: mistakes that stop it, and doubts that are only told."""

import re

from inference.profile import ModelProfile, ReplyCodec
from policies.grammar import Grammar, max_length

QUERY_PLACES = frozenset({"goal", "scheduled", "notes"})
HISTORY_PLACES = frozenset({"step", "actions", "effect"})
OUR_VERBS = frozenset({"tap", "long_press", "swipe", "text", "wait", "back", "home", "done", "fail"})
LONGEST_ACTION_TOKENS = {
    # A swipe in each language, at a token a digit and mark as Qwen's tokenizer has it; `compact` is counted exactly.
    ReplyCodec.QWEN_TOOL_CALL: 64,
    ReplyCodec.UI_TARS: 40,
    ReplyCodec.JSON: 48,
}


def profile_problems(profile: ModelProfile) -> list[tuple[str, str]]:
    """(message, path) of what cannot work."""
    found: list[tuple[str, str]] = []
    if profile.codec is ReplyCodec.COMPACT and profile.coordinates != "per_mille":
        found.append(("the compact codec has three-digit coordinates: it must be 'per_mille'", "$.coordinates"))
    least = longest_reply_tokens(profile, max_actions=1)
    if profile.max_tokens < least:
        message = f"'max_tokens' cannot hold one action: {profile.codec} needs up to {least}, not {profile.max_tokens}"
        found.append((message, "$.max_tokens"))
    if profile.min_pixels > profile.max_pixels:
        found.append((f"'min_pixels' is more than max_pixels, {profile.max_pixels}", "$.min_pixels"))
    if bool(profile.thinking[0]) != bool(profile.thinking[1]):
        found.append(("'thinking' needs both marks, or two empty ones for a model without thoughts", "$.thinking"))
    if any(not mark for mark in profile.stop):
        found.append(("'stop' has an empty text", "$.stop"))
    found += _unknown_places("query", profile.query, QUERY_PLACES)
    found += _unknown_places("history_line", profile.history_line, HISTORY_PLACES)
    for key in ("system", "history_heading"):
        places = _places(getattr(profile, key)) & (QUERY_PLACES | HISTORY_PLACES)
        found += [
            (f"{{{name}}} is not filled in here; it belongs in another text", f"$.{key}") for name in sorted(places)
        ]
    if profile.codec is ReplyCodec.JSON:
        found += _mapping_problems(profile)
    return found


def profile_warnings(profile: ModelProfile) -> list[tuple[str, str]]:
    """(message, path) of what works, but hardly as it was meant."""
    found: list[tuple[str, str]] = []
    longest = longest_reply_tokens(profile, max_actions=profile.max_actions)
    if longest_reply_tokens(profile, max_actions=1) <= profile.max_tokens < longest:
        message = f"{profile.max_actions} actions of {profile.codec} need up to {longest} tokens: with max_tokens = "
        message += f"{profile.max_tokens} the last actions of a long chunk are cut off"
        found.append((message, "$.max_tokens"))
    if "goal" not in _places(profile.query):
        found.append(("no {goal} in it: the model is never told the goal", "$.query"))
    if profile.codec is not ReplyCodec.JSON and profile.json_mapping != ModelProfile().json_mapping:
        found.append((f"json_mapping is not used by the codec {profile.codec}", "$.json_mapping"))
    return found


def longest_reply_tokens(profile: ModelProfile, *, max_actions: int) -> int:
    """Upper bound of a reply's tokens without thoughts, if at most one of its actions types text."""
    if profile.codec is not ReplyCodec.COMPACT:
        return LONGEST_ACTION_TOKENS[profile.codec] * max_actions
    without_text = max_length(Grammar(max_actions, 0))
    one = max_length(Grammar(1, profile.max_text_length))
    rest = max_length(Grammar(max_actions - 1, 0)) + 1 if max_actions > 1 else 0
    return max(without_text, rest + one)


def _places(template: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", template))


def _unknown_places(key: str, template: str, known: frozenset[str]) -> list[tuple[str, str]]:
    listed = ", ".join(f"{{{name}}}" for name in sorted(known))
    return [
        (f"{{{name}}} is never filled in; {key!r} knows {listed}", f"$.{key}")
        for name in sorted(_places(template) - known)
    ]


def _mapping_problems(profile: ModelProfile) -> list[tuple[str, str]]:
    mapping = profile.json_mapping
    if not mapping.verbs:
        return [("'verbs' is empty: no action can be read", "$.json_mapping.verbs")]
    known = ", ".join(sorted(OUR_VERBS))
    return [
        (f"{ours!r} is none of our verbs: {known}", f"$.json_mapping.verbs.{theirs}")
        for theirs, ours in mapping.verbs.items()
        if ours not in OUR_VERBS
    ]
