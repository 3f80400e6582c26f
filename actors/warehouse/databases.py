"""The configuration of databases that fits a warehouse folder, so that it can be asked with no configuration at all."""

import json
from collections.abc import Iterable

from actors.warehouse.tables import TABLES, THINGS, askable_tables

SOURCE = "farm"
LAYER_FILE = "farm.semantic.toml"
CONFIG_FILE = "databases.toml"
JOINS = (
    ("steps.episode_id", "episodes.episode_id"),
    ("actions.episode_id", "episodes.episode_id"),
    ("plans.episode_id", "episodes.episode_id"),
    ("faults.episode_id", "episodes.episode_id"),
    ("episodes.run_id", "runs.run_id"),
    ("phone_health.run_id", "runs.run_id"),
    ("engine_health.run_id", "runs.run_id"),
    *(
        (f"{name}.{key}", f"{things}.{key}")
        for things, key in THINGS.items()
        for name, table in TABLES.items()
        if key in table.columns
    ),
)


def databases_toml(folder: str, tenants: Iterable[str], *, layer_file: str = LAYER_FILE) -> str:
    """A `SqlConfig` as TOML: the source `farm`, one DuckDB file a tenant, so that everyone may read all of his own.

    Args:
        folder: Of the files.
        tenants: That have one.
        layer_file: The semantic layer's, beside the configuration.
    """
    joins = ", ".join(f'["{left}", "{right}"]' for left, right in JOINS)
    lines = [
        "# Written by `corral warehouse load`; a change is lost with the next one.",
        f"[sources.{SOURCE}]",
        'dialect = "duckdb"',
        f"folder = {json.dumps(folder, ensure_ascii=False)}",
        f"semantic_file = {json.dumps(layer_file, ensure_ascii=False)}",
        f"joins = [{joins}]",
        "",
    ]
    for name, types in askable_tables().items():
        columns = ", ".join(f'{column} = "{kind}"' for column, kind in types.items())
        lines += [
            f"[sources.{SOURCE}.tables.{name}]",
            f"columns = {{ {columns} }}",
            'filter = { kind = "everyone" }',
            "",
        ]
    for tenant in tenants:
        lines += [f"[tenants.{json.dumps(tenant)}]", "keys = {}", f'sources = ["{SOURCE}"]', ""]
    return "\n".join(lines)
