"""What can go wrong between us and a database that is no fault of the query: those are refusals, and values."""

from sqlassist.messages import Refusal


class DatabaseError(Exception):
    """The database cannot be used at present.

    Attributes:
        source: its name in the configuration.
    """

    def __init__(self, reason: str, *, source: str) -> None:
        super().__init__(f"source {source}: {reason}")
        self.source = source
        self.reason = reason


class DatabaseLost(DatabaseError):
    """It does not answer, or a connection broke twice in a row: look at the server."""


class DatabaseDenied(DatabaseError):
    """An account is not let in, or may not do what it must: run `corral sql verify`, then `corral sql provision`."""


class ServerUnavailable(Exception):
    """The server does not answer, or does not let the account in. The text says which server and account."""


TOO_SLOW = Refusal(
    "too_slow", "", "the query took longer than it may: restrict it to fewer days, or use a rollup table"
)
TOO_MANY_ROWS = Refusal(
    "too_many_rows_examined", "", "the query would read too many rows: restrict it, by day for example, or join on keys"
)
OVERLOADED = Refusal("overloaded", "", "too many queries are waiting: ask again in a moment")
NO_PARTITION_FILTER = "partition_filter_missing"
ROW_TOO_LONG = Refusal("row_too_long", "", "a row is too long to be shown: select fewer or shorter columns")

NO_ANSWER = -1  # our own code: the server ran a statement that is no query
# MariaDB's and MySQL's codes. Texts of the server are never passed on: they can hold what the tenant may not see.
_BY_CODE = {
    NO_ANSWER: Refusal("no_answer", "", "the statement gives no rows: write a SELECT"),
    1104: TOO_MANY_ROWS,
    1969: TOO_SLOW,  # MariaDB, max_statement_time
    3024: TOO_SLOW,  # MySQL, max_execution_time
    1317: TOO_SLOW,  # killed: by our deadline or by the watchdog
    1028: TOO_SLOW,  # sort aborted, which is how a kill in a sort shows
    3699: TOO_SLOW,  # MySQL, a regular expression
    1041: Refusal("too_much_memory", "", "the query needs too much memory: group or sort fewer rows"),
    1038: Refusal("too_much_memory", "", "the query needs too much memory: group or sort fewer rows"),
    1054: Refusal("unknown_column", "", "the database knows no such column: the catalog is out of date"),
    1146: Refusal("unknown_table", "", "the database knows no such table: the catalog is out of date"),
    1242: Refusal("subquery_rows", "", "a subquery that stands for one value gave several rows"),
    1222: Refusal("union_columns", "", "the parts of a UNION have different numbers of columns"),
    1690: Refusal("out_of_range", "", "a number in the query became too large"),
    1365: Refusal("division_by_zero", "", "the query divides by zero"),
    1139: Refusal("bad_pattern", "", "the database does not take the regular expression"),
    1055: Refusal("not_grouped", "", "every column that is selected must be grouped or aggregated"),
    1052: Refusal("ambiguous_column", "", "a column is in several tables: write which"),
}
CONNECTION_LOST = frozenset({2006, 2013, 2014, 2055, 1927, 1053, 4031})
CANNOT_CONNECT = frozenset({2002, 2003, 2005, 1040, 1203, 1226})
ACCESS_DENIED = frozenset({1044, 1045, 1049, 1142, 1143, 1227, 1345, 1356, 1370, 1698, 1792, 4151})


def refusal_for(code: int) -> Refusal:
    """What a server's error about the query itself means to whoever wrote it."""
    other = Refusal(
        "database_refused", "", f"the database does not take this query (error {code}): write it differently"
    )
    return _BY_CODE.get(code, other)
