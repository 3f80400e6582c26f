"""The functions that DuckDB statements may call. Table functions (`read_csv`, `query`) are none of them."""

from sqlassist.guard import functions_mysql as mysql

CALLS: mysql.Calls = {
    **{name: count for name, count in mysql.AGGREGATES.items() if name not in ("STD", "GROUP_CONCAT")},
    **mysql.WINDOWS,
    **mysql.MATH,
    **{name: count for name, count in mysql.CHOICE.items() if name != "IF"},
    **{name: count for name, count in mysql.TEXT.items() if name not in ("CHAR_LENGTH", "POSITION")},
    **mysql.TIME,
    **dict.fromkeys(("MEDIAN", "ANY_VALUE", "TRUNC", "ISODOW", "WEEK", "WEEKOFYEAR", "EPOCH", "TRY_CAST"), (1, 1)),
    **dict.fromkeys(
        ("STRING_AGG", "LISTAGG", "ARG_MAX", "ARG_MIN", "STRPOS", "CONTAINS", "STARTS_WITH", "ENDS_WITH"), (2, 2)
    ),
    **dict.fromkeys(("REGEXP_MATCHES", "DATE_TRUNC", "DATE_PART", "STRFTIME", "STRPTIME"), (2, 2)),
    **dict.fromkeys(("DATE_DIFF", "DATEDIFF", "SPLIT_PART", "MAKE_DATE"), (3, 3)),
    "COUNT": (1, 1),
    "NOW": (0, 0),
}
