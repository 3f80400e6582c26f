"""The functions that MySQL statements may call: none waits, locks, writes, reads files or tells about the server.

Each source name has its number of arguments, as the parser drops surplus ones in silence.
"""

Calls = dict[str, tuple[int, int]]
MANY = 32

AGGREGATES: Calls = {
    **dict.fromkeys(("SUM", "AVG", "MIN", "MAX", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP"), (1, 1)),
    **dict.fromkeys(("VARIANCE", "VAR_POP", "VAR_SAMP"), (1, 1)),
    "COUNT": (1, 8),
    "GROUP_CONCAT": (1, 8),
}
WINDOWS: Calls = {
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"), (0, 0)),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE", "NTILE"), (1, 1)),
    **dict.fromkeys(("LAG", "LEAD"), (1, 3)),
    "NTH_VALUE": (2, 2),
}
MATH: Calls = {
    **dict.fromkeys(("ABS", "CEIL", "CEILING", "FLOOR", "SQRT", "EXP", "LN", "LOG2", "LOG10", "SIGN"), (1, 1)),
    **dict.fromkeys(("SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "RADIANS", "DEGREES"), (1, 1)),
    **dict.fromkeys(("MOD", "POW", "POWER"), (2, 2)),
    "LOG": (1, 1),  # with a base the dialects disagree about the order; LOG2 and LOG10 say it
    "ROUND": (1, 2),
    **dict.fromkeys(("GREATEST", "LEAST"), (2, MANY)),
    "PI": (0, 0),
}
CHOICE: Calls = {"IF": (3, 3), "IFNULL": (2, 2), "NULLIF": (2, 2), "COALESCE": (1, MANY), "CAST": (1, 1)}
TEXT: Calls = {
    **dict.fromkeys(("LENGTH", "CHAR_LENGTH", "LOWER", "UPPER", "LTRIM", "RTRIM", "REVERSE", "ASCII"), (1, 1)),
    **dict.fromkeys(("LEFT", "RIGHT", "INSTR"), (2, 2)),
    **dict.fromkeys(("SUBSTRING", "SUBSTR"), (1, 3)),
    **dict.fromkeys(("LPAD", "RPAD", "REPLACE"), (3, 3)),
    "CONCAT": (1, MANY),
    "CONCAT_WS": (2, MANY),
    "TRIM": (1, 1),
    "POSITION": (1, 1),
}
TIME: Calls = {
    **dict.fromkeys(("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "DAYOFWEEK", "DAYOFYEAR"), (1, 1)),
    **dict.fromkeys(("DAYNAME", "MONTHNAME", "LAST_DAY", "EXTRACT", "DATE"), (1, 1)),
    "CURRENT_DATE": (0, 0),
    "NOW": (0, 1),
    "CURRENT_TIMESTAMP": (0, 1),
}

CALLS: Calls = {
    **AGGREGATES,
    **WINDOWS,
    **MATH,
    **CHOICE,
    **TEXT,
    **TIME,
    **dict.fromkeys(
        ("CHARACTER_LENGTH", "LCASE", "UCASE", "CRC32", "INET_ATON", "JSON_UNQUOTE", "ISNULL", "BINARY"), (1, 1)
    ),
    **dict.fromkeys(("TRUNCATE", "FORMAT", "STRCMP", "FIND_IN_SET", "JSON_EXTRACT", "DATEDIFF", "TIMEDIFF"), (2, 2)),
    **dict.fromkeys(("DATE_ADD", "DATE_SUB", "ADDDATE", "SUBDATE", "DATE_FORMAT", "STR_TO_DATE", "MAKEDATE"), (2, 2)),
    **dict.fromkeys(("TIMESTAMPDIFF", "SUBSTRING_INDEX", "CONVERT_TZ"), (3, 3)),
    **dict.fromkeys(("LOCATE", "MID"), (2, 3)),
    **dict.fromkeys(("FIELD", "ELT"), (2, MANY)),
    **dict.fromkeys(("DAYOFMONTH", "FROM_DAYS", "WEEKDAY", "WEEKOFYEAR", "TIME", "TIME_TO_SEC", "SEC_TO_TIME"), (1, 1)),
    **dict.fromkeys(("WEEK", "YEARWEEK", "FROM_UNIXTIME", "TIMESTAMP", "CONVERT"), (1, 2)),
    **dict.fromkeys(("CURDATE", "UTC_DATE", "UTC_TIMESTAMP"), (0, 0)),
    **dict.fromkeys(("CURTIME", "CURRENT_TIME", "UNIX_TIMESTAMP"), (0, 1)),
    "ANY_VALUE": (1, 1),
}
