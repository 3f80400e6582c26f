"""The sizes that a statement may have. Each stands well above what people and models write, and below what hurts."""

import attrs


@attrs.frozen
class Limits:
    """What the guard measures a statement against."""

    max_rows: int = 1000
    """Rows of the answer: the outermost LIMIT is set to this, or left where it is smaller."""
    max_offset: int = 100_000
    """Rows skipped. A larger one is refused, as a clamped offset would be another question."""
    max_characters: int = 8000
    """The longest of 8,323 public queries has 2,300."""
    max_tokens: int = 2000
    max_depth: int = 40
    """Of parentheses and CASE together. The parser's pure build ends at about 60 nested CASE."""
    max_unary_run: int = 8
    """NOT, minus and the like in a row: each is a level of recursion that parentheses do not show."""
    max_pattern_characters: int = 200
    max_pad_characters: int = 1000
    """Target length of LPAD and RPAD."""
    max_tables: int = 20
    """Table references in one statement, however nested: optimisers take exponential time in it."""
