"""The functions that MariaDB statements may call: those of MySQL, but for what only one of the two knows."""

from sqlassist.guard import functions_mysql as mysql

CALLS: mysql.Calls = {name: count for name, count in mysql.CALLS.items() if name != "ANY_VALUE"}
