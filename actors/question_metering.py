"""What the questions of each tenant cost in tokens, and when a tenant over its limit may ask again.

The limits are those of `[tenants.ID]`, counted as at the engine door (`inference.metering`): input that no cache had,
and output, each by the minute. A question is let in while its tenant's buckets are not empty, is charged what questions
cost on average, and is settled when it ends.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from inference.config import TenantConfig
from inference.messages import Usage
from inference.metering import LEARN_SHARE, TokenBucket
from runtime.ids import TenantId

NO_TOKENS = Usage(prompt_tokens=0, cached_tokens=0, output_tokens=0)


@attrs.frozen
class TenantQuestions:
    """What one tenant has asked so far."""

    tenant: TenantId
    questions: int
    """That ended."""
    limited: int
    """Refused, as the tokens of a minute were used up."""
    input_tokens: int
    """Cached ones too."""
    cached_tokens: int
    output_tokens: int


@attrs.frozen
class Charge:
    """What a question was charged when it began."""

    input_tokens: float
    output_tokens: float


@attrs.define(eq=False)
class _Tenant:
    input: TokenBucket | None
    output: TokenBucket | None
    questions: int = 0
    limited: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    input_mean: float = 0.0  # uncached tokens of a question
    output_mean: float = 0.0


@attrs.define(eq=False)
class QuestionMetering:
    """All tenants of an assistant. Times are seconds of one clock."""

    tenants: Mapping[TenantId, TenantConfig] = attrs.field(factory=dict)
    _seen: dict[TenantId, _Tenant] = attrs.field(factory=dict, init=False)  # tokens name few tenants

    def retry_after(self, tenant: TenantId, now: float) -> float:
        """Seconds until the tenant may ask again; 0 if now. A refusal is counted."""
        known = self._of(tenant)
        buckets = [bucket for bucket in (known.input, known.output) if bucket is not None]
        wait = max((bucket.wait_seconds(now) for bucket in buckets), default=0.0)
        if wait > 0:
            known.limited += 1
        return wait

    def begin(self, tenant: TenantId, now: float) -> Charge:
        """A question of the tenant is let in; `end` must follow with what this returns."""
        known = self._of(tenant)
        charge = Charge(known.input_mean, known.output_mean)
        _take(known, charge.input_tokens, charge.output_tokens, now)
        return charge

    def end(self, tenant: TenantId, charge: Charge, usage: Usage, now: float) -> None:
        """The question is over, and this is what it really used."""
        known = self._of(tenant)
        uncached = max(0, usage.prompt_tokens - usage.cached_tokens)
        _take(known, uncached - charge.input_tokens, usage.output_tokens - charge.output_tokens, now)
        share = 1.0 if known.questions == 0 else LEARN_SHARE
        known.input_mean += share * (uncached - known.input_mean)
        known.output_mean += share * (usage.output_tokens - known.output_mean)
        known.questions += 1
        known.input_tokens += usage.prompt_tokens
        known.cached_tokens += usage.cached_tokens
        known.output_tokens += usage.output_tokens

    def usage(self) -> tuple[TenantQuestions, ...]:
        """Of every tenant that asked, by name."""
        return tuple(
            TenantQuestions(tenant, one.questions, one.limited, one.input_tokens, one.cached_tokens, one.output_tokens)
            for tenant, one in sorted(self._seen.items())
        )

    def _of(self, tenant: TenantId) -> _Tenant:
        known = self._seen.get(tenant)
        if known is None:
            config = self.tenants.get(tenant, TenantConfig())
            known = self._seen[tenant] = _Tenant(
                _bucket(config.input_tokens_per_minute), _bucket(config.output_tokens_per_minute)
            )
        return known


def _bucket(per_minute: int | None) -> TokenBucket | None:
    return None if per_minute is None else TokenBucket(per_minute)


def usage_in(data: Mapping[str, Any]) -> Usage:
    """The tokens that the last event of a question tells of; none where it tells nothing that can be read."""
    tokens = data.get("tokens")
    if not isinstance(tokens, Mapping):
        return NO_TOKENS
    counts = [tokens.get(name, 0) for name in ("input", "output", "cached")]
    whole = [count if isinstance(count, int) and count > 0 else 0 for count in counts]
    return Usage(prompt_tokens=whole[0], output_tokens=whole[1], cached_tokens=min(whole[0], whole[2]))


def _take(known: _Tenant, input_tokens: float, output_tokens: float, now: float) -> None:
    if known.input is not None:
        known.input.take(input_tokens, now)
    if known.output is not None:
        known.output.take(output_tokens, now)
