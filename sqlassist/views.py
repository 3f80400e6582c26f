"""A tenant's views: his filter inside, before any join, so that nothing written outside can widen it."""

from runtime.ids import TenantId
from sqlassist.config import Equality, Everyone, Join, SqlConfig, TableConfig, Within, filter_column_type
from sqlassist.naming import literal, qualified, quoted, rollup_schema, schema_name, service_account

ROW = "b"  # the alias of the base table in every view


def base_of(config: SqlConfig, source: str, name: str) -> tuple[str, str]:
    """(schema, table) that a configured table or rollup really is."""
    owner = config.sources[source]
    if name in owner.rollups:
        return rollup_schema(config, source), name
    return owner.schema, owner.tables[name].base or name


def view_bases(config: SqlConfig, source: str, name: str) -> set[tuple[str, str]]:
    """Every (schema, table) that the view of `name` reads."""
    owner = config.sources[source]
    found = {base_of(config, source, name)}
    rule = owner.readable_tables()[name].filter
    while isinstance(rule, Join):
        found.add(base_of(config, source, rule.table))
        rule = owner.tables[rule.table].filter
    return found


def condition_for(config: SqlConfig, source: str, tenant: TenantId, table: TableConfig, alias: str = ROW) -> str:
    """The condition under which a row is the tenant's."""
    rule = table.filter
    keys = config.tenants[tenant].keys
    match rule:
        case Everyone():
            return "TRUE"
        case Equality(column, key):
            (value,) = keys[key]
            return f"{alias}.{quoted(column)} = {literal(value, filter_column_type(table))}"
        case Within(column, key):
            values = ", ".join(literal(value, filter_column_type(table)) for value in keys[key])
            return f"{alias}.{quoted(column)} IN ({values})"
        case Join(column, other, other_column):
            inner = alias + "j"
            base = qualified(*base_of(config, source, other))
            condition = condition_for(config, source, tenant, config.sources[source].tables[other], inner)
            # a semi-join: the other table may hold its key twice without doubling rows here
            return (
                f"{alias}.{quoted(column)} IN (SELECT {inner}.{quoted(other_column)} FROM {base} AS {inner}"
                f" WHERE {condition})"
            )
        case _:
            raise AssertionError("a table without a filter has no view")


def view_statement(config: SqlConfig, source: str, tenant: TenantId, name: str) -> str:
    """CREATE OR REPLACE VIEW of one table for one tenant, with the columns of his catalog."""
    owner = config.sources[source]
    table = owner.readable_tables()[name]
    seen = config.catalog(source, tenant).table(name)
    assert seen is not None
    columns = ", ".join(f"{ROW}.{quoted(column.name)} AS {quoted(column.name)}" for column in seen.columns)
    definer = f"{quoted(service_account(config, source, 'definer'))}@{quoted(owner.account_host)}"
    return (
        f"CREATE OR REPLACE ALGORITHM=MERGE DEFINER={definer} SQL SECURITY DEFINER"
        f" VIEW {qualified(schema_name(config, source, tenant), name)} AS"
        f" SELECT {columns} FROM {qualified(*base_of(config, source, name))} AS {ROW}"
        f" WHERE {condition_for(config, source, tenant, table)}"
    )
