"""Part of the eighth check: regular expressions that no text can make run away."""

import re

from sqlassist.guard.refused import Refused

MAX_UNBOUNDED = 3
MAX_REPEAT = 100
_PARTS = re.compile(
    r"""\\(?P<escaped>.) | \[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\] | (?P<open>\()(?P<flag>\?[^)]{0,2})? | (?P<close>\))
    | (?P<choice>\|) | (?P<open_repeat>[*+]|\{\d*,\}) | (?P<repeat>\{(?P<low>\d*),?(?P<high>\d*)\})""",
    re.DOTALL | re.VERBOSE,
)


def check_pattern(pattern: str, limit: int) -> None:
    """Look for what backtracking engines take exponential or high polynomial time for.

    Repetition of a group that itself repeats or chooses, back references, look-arounds, and more than three unbounded
    repetitions are refused.

    Raises:
        Refused: `pattern_too_long` or `pattern_too_costly`.
    """
    if len(pattern) > limit:
        raise Refused("pattern_too_long", f"a regular expression has at most {limit} characters")
    if not pattern:
        raise Refused("pattern_too_costly", "a regular expression must not be empty")
    is_loose = [False]  # one entry an open group: it repeats or chooses
    loose_until = -1  # the end of the last group that does
    unbounded = 0
    for match in _PARTS.finditer(pattern):
        if match["escaped"] or match["flag"]:
            _check_special(match)
        if match["open"]:
            is_loose.append(False)
        elif match["close"] and len(is_loose) > 1:
            loose_until = match.end() if is_loose.pop() else -1
            is_loose[-1] = is_loose[-1] or loose_until >= 0
        elif match["choice"]:
            is_loose[-1] = True
        elif match["open_repeat"] or match["repeat"]:
            if match.start() == loose_until:
                raise Refused("pattern_too_costly", "do not repeat what repeats or chooses, as (a+)+ does", pattern)
            if max(int(match["low"] or 0), int(match["high"] or 0)) > MAX_REPEAT:
                raise Refused("pattern_too_costly", f"repeat at most {MAX_REPEAT} times", match.group())
            unbounded += match["open_repeat"] is not None
            is_loose[-1] = True
    if unbounded > MAX_UNBOUNDED:
        raise Refused("pattern_too_costly", f"at most {MAX_UNBOUNDED} of * and + in a regular expression", pattern)


def _check_special(match: "re.Match[str]") -> None:
    if match["escaped"] and (match["escaped"].isdigit() or match["escaped"] in "gk"):
        raise Refused("pattern_too_costly", "back references are not allowed", match.group())
    if match["flag"] and not match["flag"].startswith("?:"):
        raise Refused("pattern_too_costly", "look-arounds and flags are not allowed", match.group())
