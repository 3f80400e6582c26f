"""How provisioned accounts and schemas are called, and how names and values are written in SQL of our own."""

import re

from runtime.ids import TenantId
from sqlassist.catalog import ColumnType
from sqlassist.config import SqlConfig


def account_name(config: SqlConfig, source: str, tenant: TenantId) -> str:
    """A tenant's account."""
    return f"{config.sources[source].prefix}_{config.account(tenant)}"


def schema_name(config: SqlConfig, source: str, tenant: TenantId) -> str:
    """Where a tenant's queries run: the schema of his views, called like his account; without views his own one."""
    if not config.sources[source].views:
        return config.own_schema(source, tenant)
    return account_name(config, source, tenant)


def service_account(config: SqlConfig, source: str, role: str) -> str:
    """An account of our own: `definer`, `explainer`, `watchdog` or `rollup`."""
    return f"{config.sources[source].prefix}_{role}"


def rollup_schema(config: SqlConfig, source: str) -> str:
    """Where pre-aggregated tables are."""
    return f"{config.sources[source].prefix}_rollups"


def quoted(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def qualified(schema: str, name: str) -> str:
    """`schema`.`name`."""
    return f"{quoted(schema)}.{quoted(name)}"


def text_literal(value: str) -> str:
    """A string as MySQL and MariaDB read it without NO_BACKSLASH_ESCAPES; both forms of quoting are escaped."""
    if "\0" in value:
        raise ValueError("a value for SQL holds a NUL character")
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def literal(value: str, kind: ColumnType) -> str:
    """A tenant's key value as a literal of its column's type.

    Raises:
        ValueError: it is no integer though the column is.
    """
    if kind is ColumnType.INTEGER:
        if not re.fullmatch(r"-?\d{1,19}", value):
            raise ValueError(f"{value!r} is no integer")
        return value
    return text_literal(value)
