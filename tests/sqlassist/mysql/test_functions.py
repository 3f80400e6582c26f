"""Every function that the guard lets MySQL's statements call is one that a real MySQL has."""

import contextlib

import pymysql
import pytest

from sqlassist.guard.functions_mysql import CALLS
from tests.kit.mysql import mysql, mysql_marks

pytestmark = mysql_marks

NO_SUCH_FUNCTION = 1305


def _codes(names: list[str]) -> dict[str, set[int]]:
    codes: dict[str, set[int]] = {name: set() for name in names}
    with contextlib.closing(mysql().admin("mysql")) as connection, connection.cursor() as cursor:
        for name in names:
            for arguments in ("", "1", "1, 1"):
                try:
                    cursor.execute(f"SELECT {name}({arguments})")
                    cursor.fetchall()
                except pymysql.err.MySQLError as error:
                    codes[name].add(int(error.args[0]))
    return codes


def test_the_server_knows_every_allowed_function() -> None:
    unknown = [name for name, codes in _codes(sorted(CALLS)).items() if NO_SUCH_FUNCTION in codes]

    assert unknown == []


@pytest.mark.parametrize("name", ["NO_SUCH_NAME", "MEDIAN"])
def test_a_function_that_it_lacks_would_be_noticed(name: str) -> None:
    assert _codes([name])[name] == {NO_SUCH_FUNCTION}
