"""How a check says no, inside the guard. Outside it, a refusal is a value: `check` makes one of this."""

MAX_WHERE = 80


class Refused(Exception):
    """A check has refused the statement."""

    def __init__(self, code: str, hint: str, where: str = "") -> None:
        super().__init__(f"{code}: {hint}")
        self.code = code
        self.hint = hint
        self.where = where if len(where) <= MAX_WHERE else where[: MAX_WHERE - 3] + "..."
