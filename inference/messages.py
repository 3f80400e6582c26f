"""What passes the engine door: a prompt in, a completion out. Values only; upper rooms import this and `profile`."""

from collections.abc import Callable
from typing import Protocol

import attrs

from runtime.ids import EngineId, TenantId


@attrs.frozen
class TextPart:
    """A piece of text in a message."""

    text: str


@attrs.frozen
class ImagePart:
    """A JPEG in a message. Equal pictures have equal bytes, so an engine can reuse what it computed."""

    jpeg: bytes = attrs.field(repr=False)
    sha256: str
    """Hex digest of `jpeg`."""
    width: int
    height: int


Part = TextPart | ImagePart


@attrs.frozen
class Message:
    """One turn: `system`, `user` or `assistant`."""

    role: str
    parts: tuple[Part, ...]


@attrs.frozen
class Constraint:
    """What the reply must look like, in every form that some engine understands; None where there is none."""

    regex: str | None = None
    ebnf: str | None = None
    gbnf: str | None = None
    json_schema: str | None = None
    """The schema as JSON text."""

    @property
    def is_empty(self) -> bool:
        """True when decoding is free."""
        return self == Constraint()


@attrs.frozen
class Prompt:
    """One request for a completion."""

    request_id: str
    """Unique; the engine knows the request by it, so that it can be aborted."""
    tenant: TenantId
    routing_key: str
    """Episode or session: all prompts with one key go to one engine while it lives."""
    messages: tuple[Message, ...]
    max_tokens: int
    constraint: Constraint = Constraint()
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    workload: str = "bots"
    """`bots` or `assistant`; the fairness key is (workload, tenant)."""


@attrs.frozen
class Usage:
    """Tokens as the engine counted them."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    image_tokens: int | None = None
    """None where the engine does not say."""


@attrs.frozen
class Completion:
    """What came back, and the ledger of where the time went. All times in seconds."""

    text: str
    finish_reason: str
    """`stop`, `length` or `abort`."""
    usage: Usage
    engine: EngineId
    model: str
    why: str
    """Why this engine: `born`, `sticky`, `spilled` or `rehomed`."""
    queue_seconds: float
    """From the call until the request was sent."""
    prefill_seconds: float
    """From sending until the first token arrived."""
    decode_seconds: float
    """From the first token until the last."""


@attrs.frozen
class Delta:
    """A piece of an answer on its way. It may yet be followed by `restart`: then all before it is void."""

    text: str
    channel: str = "text"
    """`text`, `thought` (what an engine tells apart as reasoning), or `restart`: a second engine begins anew."""


OnDelta = Callable[[Delta], None]
"""Must not wait: it stands between the engine's socket and the answer."""


class Complete(Protocol):
    """The engine door as upper rooms see it.

    Waits until the completion is whole. When the caller is cancelled, or `deadline` (on the run's clock) passes,
    the request is aborted on the engine as well.

    Raises an `EngineError` (see `inference.errors`); nothing is retried after the deadline.
    """

    async def __call__(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Complete one prompt."""
        ...


class CompleteStreaming(Protocol):
    """As `Complete`, for whoever shows an answer while it is written."""

    async def __call__(self, prompt: Prompt, *, deadline: float, on_delta: OnDelta | None = None) -> Completion:
        """Complete one prompt; `on_delta` sees every piece as it comes."""
        ...
