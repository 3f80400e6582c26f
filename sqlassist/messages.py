"""What passes between the stages of the assistant. Values only."""

import attrs


@attrs.frozen
class Draft:
    """SQL as somebody wrote it: a model, or a person. It is data until the guard has made a `CheckedQuery` of it."""

    sql: str
    author: str = "model"
    """`model`, `person`, `verified` or `metric`: for the audit, never for a decision."""


@attrs.frozen
class Refusal:
    """Why a text was not taken. An expected answer, so a value and no exception."""

    code: str
    """Stable, in `snake_case`: for metrics, for tests, and for the decision whether to ask again."""
    where: str
    """The piece of the text that is meant, cut to 80 characters; empty where it is the whole."""
    hint: str
    """What a model or a person can do about it. It names nothing that the tenant may not see."""

    def __str__(self) -> str:
        return f"{self.code}: {self.hint}" + (f" (at {self.where})" if self.where else "")
