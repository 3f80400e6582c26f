"""Schema files: catalogs of databases in JSON lines, for checking SQL without any configuration or server."""

import json
from typing import Any

from actors.configuration import Problem, ScenarioError
from sqlassist.catalog import Catalog, CatalogError, Dialect, catalog_for_schema


def parse_schemas(source: bytes, dialect: Dialect, file: str = "") -> dict[str, Catalog]:
    """Read a schema file: one JSON object a line, `{"db": ..., "tables": {table: [[column, type], ...]}}`.

    Returns:
        Database → its catalog.

    Raises:
        ScenarioError: with every line that is none.
    """
    catalogs: dict[str, Catalog] = {}
    problems = []
    for number, line in enumerate(source.decode("utf-8-sig", "replace").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            schema: Any = json.loads(line)
            catalog = catalog_for_schema(schema if isinstance(schema, dict) else {}, dialect)
        except (ValueError, RecursionError) as error:  # CatalogError is one too
            what = str(error) if isinstance(error, CatalogError) else f"not JSON: {error}"
            problems.append(Problem(what, "$", file, number))
        else:
            catalogs[catalog.name] = catalog
    if not catalogs and not problems:
        problems.append(Problem("the file describes no database", "$", file))
    if problems:
        raise ScenarioError(problems)
    return catalogs
