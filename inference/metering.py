"""What tenants use, counted in tokens: estimates before an answer, limits per minute, and totals.

Input and output are limited apart (ITPM and OTPM), as they cost apart. Input means tokens that no cache had. A bucket
lets a request pass while it is not empty, charges the estimate, and is settled by what the engine counted; it may go
into debt by one request, and the next one waits for it to be paid. So no prompt is too large ever to pass.
"""

import math
from collections import OrderedDict

import attrs

from inference.config import TenantConfig
from inference.fairness import OUTPUT_WEIGHT, TenantKey
from inference.messages import ImagePart, Prompt, TextPart, Usage
from runtime.ids import TenantId

BYTES_PER_TOKEN = 4.0  # of English and JSON; Chinese has about 3 bytes a token. Corrected by what engines count
PIXELS_PER_TOKEN = 28 * 28  # Qwen2.5-VL; Qwen3-VL has 32 x 32. Corrected likewise
LEARN_SHARE = 0.1  # of a new observation in an average: about the last twenty count
MAX_TENANTS = 1000  # usage is kept of; the longest unused one is dropped


@attrs.frozen
class Estimate:
    """What a request will probably cost, in tokens."""

    input_tokens: float
    """That no cache has."""
    output_tokens: float

    @property
    def cost(self) -> float:
        """Weighted, as fairness counts."""
        return self.input_tokens + OUTPUT_WEIGHT * self.output_tokens


def cost_of(usage: Usage) -> float:
    """What a request really cost, weighted as fairness counts."""
    return max(0, usage.prompt_tokens - usage.cached_tokens) + OUTPUT_WEIGHT * usage.output_tokens


def raw_tokens(prompt: Prompt) -> float:
    """Prompt tokens by rule of thumb."""
    tokens = 0.0
    for message in prompt.messages:
        for part in message.parts:
            match part:
                case TextPart(text):
                    tokens += len(text) / BYTES_PER_TOKEN if text.isascii() else len(text.encode()) / BYTES_PER_TOKEN
                case ImagePart(width=width, height=height):
                    tokens += width * height / PIXELS_PER_TOKEN
    return tokens


@attrs.define
class TokenBucket:
    """Tokens per minute: a minute's worth at most is saved up."""

    per_minute: float
    _level: float = attrs.field(init=False)
    _at: float = attrs.field(default=-math.inf, init=False)

    def __attrs_post_init__(self) -> None:
        self._level = self.per_minute

    def wait_seconds(self, now: float) -> float:
        """Until the next request may pass; 0 if now."""
        self._fill(now)
        if self._level > 0:
            return 0.0
        return (1.0 - self._level) / self.per_minute * 60.0

    def take(self, tokens: float, now: float) -> None:
        """Charge; a negative number pays back."""
        self._fill(now)
        self._level = min(self.per_minute, self._level - tokens)

    def _fill(self, now: float) -> None:
        if self._at > -math.inf:
            self._level = min(self.per_minute, self._level + (now - self._at) * self.per_minute / 60.0)
        self._at = max(now, self._at)


@attrs.frozen
class TenantUsage:
    """What one tenant has used since the pool was opened."""

    workload: str
    tenant: TenantId
    requests: int
    """Answered."""
    limited: int
    """Refused, as its tokens per minute were used up."""
    input_tokens: int
    """Prompt tokens, cached ones too."""
    cached_tokens: int
    output_tokens: int


@attrs.define(eq=False)
class _Tenant:
    requests: int = 0
    limited: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    tokens_per_raw: float = 1.0  # what engines count over the rule of thumb
    cached_share: float = 0.0  # of prompts at an engine that knows the episode
    output_mean: float | None = None


@attrs.define(eq=False)
class _Limits:
    input: TokenBucket | None
    output: TokenBucket | None


@attrs.define(eq=False)
class Metering:
    """All tenants of a pool. Times are seconds of the run's clock."""

    tenants: dict[TenantId, TenantConfig] = attrs.field(factory=dict)
    _tenants: OrderedDict[TenantKey, _Tenant] = attrs.field(factory=OrderedDict, init=False)
    _limits: dict[TenantId, _Limits] = attrs.field(factory=dict, init=False)  # shared by a tenant's workloads

    def configure(self, tenant: TenantId, config: TenantConfig) -> None:
        """Set or change what a tenant may use; its buckets are full again."""
        self.tenants[tenant] = config
        self._limits.pop(tenant, None)

    def estimate(self, prompt: Prompt, *, cold: bool) -> Estimate:
        """What a request will probably cost, by what the tenant's requests cost so far.

        Args:
            prompt: the request.
            cold: the engine knows nothing of the episode.
        """
        known = self._tenants.get((prompt.workload, prompt.tenant))
        raw = raw_tokens(prompt)
        if known is None:
            return Estimate(raw, prompt.max_tokens)
        uncached = 1.0 if cold else 1.0 - known.cached_share
        output = prompt.max_tokens if known.output_mean is None else min(known.output_mean, prompt.max_tokens)
        return Estimate(raw * known.tokens_per_raw * uncached, output)

    def expected_output(self, prompt: Prompt) -> float | None:
        """Output tokens that the tenant's answers had on average, at most what is asked for; None before the first."""
        known = self._tenants.get((prompt.workload, prompt.tenant))
        if known is None or known.output_mean is None:
            return None
        return min(known.output_mean, float(prompt.max_tokens))

    def retry_after(self, prompt: Prompt, now: float) -> float:
        """Seconds until the tenant may ask again; 0 if now. A refusal is counted."""
        limits = self._limits_of(prompt.tenant)
        buckets = [bucket for bucket in (limits.input, limits.output) if bucket is not None]
        wait = max((bucket.wait_seconds(now) for bucket in buckets), default=0.0)
        if wait > 0:
            self._tenant(prompt).limited += 1
        return wait

    def charge(self, prompt: Prompt, estimate: Estimate, now: float) -> None:
        """A request of the tenant is let in; `settle` must follow."""
        limits = self._limits_of(prompt.tenant)
        if limits.input is not None:
            limits.input.take(estimate.input_tokens, now)
        if limits.output is not None:
            limits.output.take(estimate.output_tokens, now)

    def settle(self, prompt: Prompt, estimate: Estimate, usage: Usage | None, now: float) -> None:
        """What was charged becomes what it really cost; None: the request was not answered, and costs nothing."""
        limits = self._limits_of(prompt.tenant)
        uncached = 0 if usage is None else max(0, usage.prompt_tokens - usage.cached_tokens)
        if limits.input is not None:
            limits.input.take(uncached - estimate.input_tokens, now)
        if limits.output is not None:
            limits.output.take((0 if usage is None else usage.output_tokens) - estimate.output_tokens, now)

    def learn(self, prompt: Prompt, usage: Usage, *, cold: bool) -> None:
        """Take in what an answered request used."""
        tenant = self._tenant(prompt)
        tenant.requests += 1
        tenant.input_tokens += usage.prompt_tokens
        tenant.cached_tokens += usage.cached_tokens
        tenant.output_tokens += usage.output_tokens
        if usage.prompt_tokens > 0:
            ratio = usage.prompt_tokens / max(1.0, raw_tokens(prompt))
            share = (
                ratio if tenant.requests == 1 else tenant.tokens_per_raw + LEARN_SHARE * (ratio - tenant.tokens_per_raw)
            )
            tenant.tokens_per_raw = min(10.0, max(0.1, share))
            if not cold:
                cached = min(1.0, usage.cached_tokens / usage.prompt_tokens)
                tenant.cached_share += LEARN_SHARE * (cached - tenant.cached_share)
        before = float(usage.output_tokens) if tenant.output_mean is None else tenant.output_mean
        tenant.output_mean = before + LEARN_SHARE * (usage.output_tokens - before)

    def usage(self) -> tuple[TenantUsage, ...]:
        """Of every tenant that was seen, by workload and name."""
        return tuple(
            TenantUsage(
                workload,
                tenant,
                requests=one.requests,
                limited=one.limited,
                input_tokens=one.input_tokens,
                cached_tokens=one.cached_tokens,
                output_tokens=one.output_tokens,
            )
            for (workload, tenant), one in sorted(self._tenants.items())
        )

    def _tenant(self, prompt: Prompt) -> _Tenant:
        key = (prompt.workload, prompt.tenant)
        tenant = self._tenants.get(key)
        if tenant is None:
            tenant = self._tenants[key] = _Tenant()
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
        else:
            self._tenants.move_to_end(key)
        return tenant

    def _limits_of(self, tenant: TenantId) -> _Limits:
        limits = self._limits.get(tenant)
        if limits is None:
            config = self.tenants.get(tenant, _UNLIMITED)
            rates = (config.input_tokens_per_minute, config.output_tokens_per_minute)
            if rates == (None, None):
                return _NO_LIMITS
            limits = self._limits[tenant] = _Limits(*(None if rate is None else TokenBucket(rate) for rate in rates))
        return limits


_UNLIMITED = TenantConfig()
_NO_LIMITS = _Limits(None, None)
