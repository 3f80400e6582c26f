"""From the table of a metric to the table of a dimension: along references alone, so that no row is counted twice."""

from collections import deque

import attrs

from sqlassist.semantic import SemanticLayer

MAX_HOPS = 3


@attrs.frozen
class Hop:
    """One reference that is followed."""

    table: str
    column: str
    """Of `table`: it holds the key of the entity."""
    to_table: str
    to_key: str


def path_between(layer: SemanticLayer, start: str, goal: str) -> tuple[Hop, ...] | None:
    """The fewest references from one table to another; the first in the file's order where several are as few.

    Returns:
        The hops, none where both are one table; None where there is no way.
    """
    if start == goal:
        return ()
    queue: deque[tuple[str, tuple[Hop, ...]]] = deque([(start, ())])
    seen = {start}
    while queue:
        table, way = queue.popleft()
        for place, entity_name in layer.references.items():
            owner, _, column = place.partition(".")
            entity = layer.entities.get(entity_name)
            if owner != table or entity is None or entity.table in seen:
                continue
            longer = (*way, Hop(table, column, entity.table, entity.key))
            if entity.table == goal:
                return longer
            seen.add(entity.table)
            if len(longer) < MAX_HOPS:
                queue.append((entity.table, longer))
    return None


def reachable_dimensions(layer: SemanticLayer, table: str) -> tuple[str, ...]:
    """What the rows of a table can be split by, in the file's order."""
    return tuple(
        name
        for name, dimension in layer.dimensions.items()
        if path_between(layer, table, dimension.column.partition(".")[0]) is not None
    )
