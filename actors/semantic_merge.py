"""Adds sampled values to a semantic layer file; every edit, comment and order of whoever wrote it stays."""

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError


class MergeError(Exception):
    """The file is no TOML, or has no such dimension. The text says which."""


def with_values(text: str, found: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, int]]:
    """The file with values that it did not have.

    Args:
        text: TOML.
        found: Dimension → values as stored.

    Returns:
        The new text, and how many values each dimension got. Values that are there stay as they are.

    Raises:
        MergeError: it is no semantic layer file.
    """
    try:
        document: Any = tomlkit.parse(text)
    except TOMLKitError as error:
        raise MergeError(f"it is no TOML: {error}") from error
    dimensions = document.get("dimensions", {})
    added = {}
    for name, values in found.items():
        if name not in dimensions:
            raise MergeError(f"it has no dimension {name!r}")
        dimension = dimensions[name]
        known = dimension.get("values")
        missing = [value for value in values if known is None or value not in known]
        if not missing:
            continue
        if known is None:
            known = tomlkit.inline_table()
            for value in missing:
                known[value] = tomlkit.inline_table()
            dimension["values"] = known
        else:
            for value in missing:
                known[value] = tomlkit.inline_table()
        added[name] = len(missing)
    return tomlkit.dumps(document), added
