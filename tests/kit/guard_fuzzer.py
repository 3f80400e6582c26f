"""A coverage-guided fuzzer of the guard, for atheris: `python -m tests.kit.guard_fuzzer -runs=5000`.

Its own program, as atheris ends the process that it runs in. A finding is an exception, and libFuzzer's exit code 77.
"""

import sys

import atheris

with atheris.instrument_imports(include=["sqlassist"]):  # pyright: ignore[reportAttributeAccessIssue]
    from sqlassist.catalog import Dialect
    from sqlassist.guard.check import check
    from sqlassist.guard.checked import CheckedQuery
    from tests.kit.sql import game_catalog

_WORDS = """
SELECT FROM WHERE players payments secret id name amount * ( ) , = < + - AND OR NOT IN LIKE REGEXP IS NULL UNION JOIN ON
AS GROUP BY ORDER BY LIMIT OFFSET WITH CASE WHEN THEN END EXISTS SLEEP COUNT CAST INTERVAL DAY 1 0x1 'a' "b" `c` ' " ` .
/* */ -- # ; @ @@ := ! \\ || && { } INTO FOR UPDATE VALUES TABLE LATERAL DISTINCT OVER BETWEEN é
"""
WORDS = [*_WORDS.split(), "\u200b", "\u3000"]


def fuzz_one(data: bytes) -> None:
    """Two thirds of the inputs are read as words of SQL, the others as text."""
    if data[:1] and data[0] % 3:
        sql = "SELECT " * (data[0] % 2) + " ".join(WORDS[byte % len(WORDS)] for byte in data[1:120])
    else:
        sql = data[1:400].decode("utf-8", "surrogatepass" if data[:1] == b"\x03" else "replace")
    for dialect in Dialect:
        catalog = game_catalog(dialect)
        result = check(sql, catalog)
        if isinstance(result, CheckedQuery):
            again = check(result.sql, catalog)
            assert isinstance(again, CheckedQuery), (sql, result.sql, str(again))
            assert again.sql == result.sql, (sql, result.sql, again.sql)
        else:
            assert result.code != "internal", (sql, str(result))


def safely(data: bytes) -> None:
    """Bytes that are no UTF-8 are no text at all."""
    try:
        fuzz_one(data)
    except UnicodeDecodeError:
        return


if __name__ == "__main__":
    atheris.Setup(sys.argv, safely)
    atheris.Fuzz()
