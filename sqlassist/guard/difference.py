"""What the guard changed, for people: the old and the new text, clause by clause."""

import difflib
import re

_BREAK = re.compile(
    r"\s+(?=(?:FROM|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|UNION|INTERSECT|EXCEPT|(?:LEFT |RIGHT |INNER )?JOIN)\b)",
    re.IGNORECASE,
)


def rewrite_diff(source: str, sql: str) -> str:
    """A unified diff without header; empty where only blanks differ."""
    old, new = (_BREAK.sub("\n", re.sub(r"\s+", " ", text.strip())).split("\n") for text in (source, sql))
    lines = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@"))
