"""The cache layers behind the pipeline's port, and what an operator says about them."""

import datetime as dt
from collections.abc import Callable

import attrs

from runtime.ids import TenantId
from sqlassist.cache import (
    RESULT_SECONDS,
    SEMANTIC_THRESHOLD,
    CacheScope,
    ExactCache,
    ResultCache,
    SemanticCache,
    Signature,
    signature_of,
)
from sqlassist.decision import Decision
from sqlassist.messages import Asker
from sqlassist.ports import Subject
from sqlassist.result import ResultSet


@attrs.define(eq=False)
class LayeredCaches:
    """The cache layers behind the pipeline's port."""

    exact: ExactCache | None = attrs.field(factory=ExactCache)
    results: ResultCache | None = attrs.field(factory=ResultCache)
    semantic: SemanticCache | None = None
    """Off unless somebody turns it on."""
    library_version: Callable[[TenantId], str] = attrs.field(default=lambda _: "")
    """Changes when what is approved for a tenant does: decisions made before it are asked for anew."""

    def decision(self, asker: Asker, subjects: tuple[Subject, ...], text: str, today: dt.date) -> Decision | None:
        """See `Caches`."""
        scope = self._scope_of_decisions(asker, subjects)
        found = self.exact.get(scope, text, today) if self.exact is not None else None
        if found is None and self.semantic is not None:
            found = self.semantic.get(scope, text, today, _signature(subjects, text))
        return found

    def keep_decision(
        self, asker: Asker, subjects: tuple[Subject, ...], text: str, today: dt.date, decision: Decision
    ) -> None:
        """See `Caches`."""
        scope = self._scope_of_decisions(asker, subjects)
        if self.exact is not None:
            self.exact.put(scope, text, today, decision)
        if self.semantic is not None:
            self.semantic.put(scope, text, today, _signature(subjects, text), decision)

    def result(self, asker: Asker, subject: Subject, sql: str, watermark: str, now: float) -> ResultSet | None:
        """See `Caches`."""
        if self.results is None:
            return None
        return self.results.get(_scope(asker, (subject,)), subject.source, sql, watermark, now)

    def keep_result(
        self, asker: Asker, subject: Subject, sql: str, watermark: str, now: float, result: ResultSet
    ) -> None:
        """See `Caches`."""
        if self.results is not None:
            self.results.put(_scope(asker, (subject,)), subject.source, sql, watermark, now, result)

    def _scope_of_decisions(self, asker: Asker, subjects: tuple[Subject, ...]) -> CacheScope:
        return attrs.evolve(_scope(asker, subjects), library_version=self.library_version(asker.tenant))


def _scope(asker: Asker, subjects: tuple[Subject, ...]) -> CacheScope:
    return CacheScope(
        tenant=asker.tenant,
        roles=tuple(sorted(asker.roles)),
        sources=tuple(subject.source for subject in subjects),
        catalog_versions=tuple(subject.catalog.version for subject in subjects),
        layer_versions=tuple(subject.layer_version for subject in subjects),
    )


def _signature(subjects: tuple[Subject, ...], text: str) -> Signature:
    return signature_of(text, [phrase for subject in subjects for phrase in subject.phrases])


@attrs.frozen
class CacheConfig:
    """`[caches]`: which layers are on."""

    exact: bool = True
    result_seconds: float = attrs.field(default=RESULT_SECONDS, metadata={"min": 0, "max": 86_400})
    """How old shown rows may be; 0 turns this layer off. DuckDB files that were replaced are noticed at once."""
    semantic: bool = False
    """Take a question for another one in other words. `corral bench cache` tells how often that is wrong."""
    semantic_threshold: float = attrs.field(default=SEMANTIC_THRESHOLD, metadata={"min": 0.5, "max": 1})

    def opened(self) -> LayeredCaches:
        """Empty caches of these layers."""
        return LayeredCaches(
            ExactCache() if self.exact else None,
            ResultCache(self.result_seconds) if self.result_seconds > 0 else None,
            SemanticCache(self.semantic_threshold) if self.semantic else None,
        )
