"""How the requests of a farm end, by engine and by tenant: the latest of each, and totals. Pure."""

from collections import deque
from collections.abc import Sequence
from statistics import median

import attrs

from inference.errors import EngineError, EngineNotReady, Overloaded
from inference.messages import Completion, Prompt

KEPT = 200  # the latest ends of one engine or tenant: minutes of a busy one, and enough to tell 5 % from 10 %


@attrs.frozen
class End:
    """How one request ended."""

    ok: bool
    token_seconds: float | None = None
    """Time per output token; None where it did not get that far."""
    first_token_seconds: float | None = None


@attrs.frozen
class Rates:
    """What a number of ends come to."""

    requests: int = 0
    failures: int = 0
    token_seconds: float | None = None
    """Median time per output token; None where there is none."""
    first_token_seconds: float | None = None

    @property
    def failure_share(self) -> float:
        """Of all; 0 where there were none."""
        return self.failures / self.requests if self.requests else 0.0


@attrs.define
class Tokens:
    """Of all that was answered."""

    input: int = 0
    """Prompt tokens, cached ones too."""
    cached: int = 0
    output: int = 0

    @property
    def cached_share(self) -> float | None:
        """Of the prompt tokens; None where there were none."""
        return self.cached / self.input if self.input else None


@attrs.define
class EngineTally:
    """What has become of requests."""

    _engines: dict[str, deque[End]] = attrs.field(factory=dict, init=False)
    _tenants: dict[str, deque[End]] = attrs.field(factory=dict, init=False)
    tokens: dict[str, dict[str, Tokens]] = attrs.field(factory=dict, init=False)
    """By engine and tenant."""

    def observe(self, prompt: Prompt, end: Completion | EngineError) -> None:
        """One request has ended. One that no engine took, or that a queue refused, says nothing about an engine."""
        if isinstance(end, Completion):
            usage = end.usage
            token_seconds = end.decode_seconds / (usage.output_tokens - 1) if usage.output_tokens > 1 else None
            found = End(True, token_seconds, end.prefill_seconds)
            tokens = self.tokens.setdefault(end.engine, {}).setdefault(prompt.tenant, Tokens())
            tokens.input += usage.prompt_tokens
            tokens.cached += usage.cached_tokens
            tokens.output += usage.output_tokens
        elif isinstance(end, Overloaded | EngineNotReady) or not end.engine:
            return
        else:
            found = End(False)
        self._engines.setdefault(end.engine, deque(maxlen=KEPT)).append(found)
        self._tenants.setdefault(prompt.tenant, deque(maxlen=KEPT)).append(found)

    def tokens_of(self, engine: str, tenant: str | None = None) -> Tokens:
        """Of an engine, for one tenant or for all."""
        by_tenant = self.tokens.get(engine, {})
        found = list(by_tenant.values()) if tenant is None else [by_tenant.get(tenant, Tokens())]
        return Tokens(
            sum(one.input for one in found), sum(one.cached for one in found), sum(one.output for one in found)
        )

    def engine(self, engine: str) -> Rates:
        """The latest requests of an engine."""
        return rates_of(self._engines.get(engine, ()))

    def tenant(self, tenant: str) -> Rates:
        """The latest requests of a tenant."""
        return rates_of(self._tenants.get(tenant, ()))

    def forget_engine(self, engine: str) -> Rates:
        """Begin anew with an engine, as it is another one now; returns what is forgotten. Totals stay."""
        return rates_of(self._engines.pop(engine, ()))

    def forget_tenant(self, tenant: str) -> Rates:
        """Begin anew with a tenant, as it is answered by another model now; returns what is forgotten."""
        return rates_of(self._tenants.pop(tenant, ()))


def rates_of(ends: Sequence[End] | deque[End]) -> Rates:
    """What they come to."""
    token = [end.token_seconds for end in ends if end.token_seconds is not None]
    first = [end.first_token_seconds for end in ends if end.first_token_seconds is not None]
    return Rates(
        len(ends),
        sum(not end.ok for end in ends),
        median(token) if token else None,
        median(first) if first else None,
    )
