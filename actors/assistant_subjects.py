"""What a tenant can be answered about: his part of every source, ready for the pipeline; and whether data changed."""

import hashlib
from pathlib import Path

from runtime.ids import TenantId
from sqlassist.catalog import CatalogError, Dialect
from sqlassist.config import SqlConfig
from sqlassist.document import document_for
from sqlassist.grammar import grammar_for
from sqlassist.language import folded
from sqlassist.ports import Subject
from sqlassist.scope import layer_for


def subjects_of(config: SqlConfig, tenant: TenantId, *, with_grammar: bool) -> tuple[Subject, ...]:
    """Every source of a tenant that holds a table for him."""
    found = []
    for source in config.sources_of(tenant) if tenant in config.tenants else ():
        try:
            catalog = config.catalog(source, tenant)
        except CatalogError:
            continue  # the configuration was checked: he has no table there
        if not catalog.tables:
            continue
        layer = layer_for(config.sources[source].semantic, catalog)
        version = hashlib.sha256(repr(layer).encode()).hexdigest()[:12]
        phrases = [
            *(phrase for metric in layer.metrics.values() for phrase in metric.names.every),
            *(phrase for one in layer.dimensions.values() for phrase in one.names.every),
            *(p for one in layer.dimensions.values() for names in one.values.values() for p in names.every),
        ]
        grammar = grammar_for(catalog) if with_grammar else None
        found.append(
            Subject(source, catalog, layer, document_for(layer), grammar, version, tuple(map(folded, phrases)))
        )
    return tuple(found)


def watermark_of(config: SqlConfig, source: str, tenant: TenantId) -> str:
    """Changes when a DuckDB file has been replaced; servers tell nothing, so their results are kept by time alone."""
    one = config.sources[source]
    if one.dialect is not Dialect.DUCKDB:
        return ""
    try:
        found = (Path(one.folder) / f"{tenant}.duckdb").stat()
    except OSError:
        return "absent"
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
