"""A prompt as bytes: the HTTP request for `/v1/chat/completions`, in the dialect of the engine.

Equal prompts give equal bytes, and prompts that begin alike give bodies that begin alike.
"""

import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from inference.config import Dialect
from inference.errors import EngineRefused
from inference.messages import Constraint, ImagePart, Message, Prompt, TextPart

COMPLETIONS_PATH = "/v1/chat/completions"
MAX_BODY_BYTES = 32 << 20  # twenty 720p PNGs as base64; engines and proxies refuse more anyway
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps would make one at every call
IMAGE_IDLE_SECONDS = 60.0  # an episode asks for its frames again within seconds; later it is over
IMAGE_CACHE_BYTES = 64 << 20  # about 500 frames of 100 KB: the last one or two of each of a few hundred episodes


@attrs.frozen
class WireRequest:
    """One HTTP request."""

    path: str
    headers: tuple[tuple[str, str], ...]
    """Without Host and Content-Length."""
    body: bytes = attrs.field(repr=False)


@attrs.define
class ImageUrls:
    """Images as JSON strings with `data:` URLs. One that was asked for in the last minute is not encoded again."""

    max_bytes: int = IMAGE_CACHE_BYTES
    encoded: int = attrs.field(default=0, init=False)
    """Images that were encoded, as they were not known."""
    held_bytes: int = attrs.field(default=0, init=False)
    _urls: OrderedDict[str, tuple[bytes, float]] = attrs.field(factory=OrderedDict, init=False)
    # {sha256: (url, when it was used)}, oldest use first

    def url_for(self, image: ImagePart, now: float) -> bytes:
        """The image as `"data:image/jpeg;base64,..."`, quotes included: engines take anything else for a path.

        Args:
            image: It.
            now: A clock in seconds. Images that nobody asked for of late are forgotten.
        """
        while self._urls and next(iter(self._urls.values()))[1] < now - IMAGE_IDLE_SECONDS:
            self._forget_oldest()
        known = self._urls.get(image.sha256)
        if known is not None:
            self._urls[image.sha256] = known[0], now
            self._urls.move_to_end(image.sha256)
            return known[0]
        url = b"".join(
            (b'"data:image/jpeg;base64,', b64encode(image.jpeg), b'"')
        )  # base64 holds nothing that JSON escapes
        self.encoded += 1
        self.held_bytes += len(url)
        self._urls[image.sha256] = url, now
        while self.held_bytes > self.max_bytes and len(self._urls) > 1:
            self._forget_oldest()
        return url

    def _forget_oldest(self) -> None:
        _, (oldest, _) = self._urls.popitem(last=False)
        self.held_bytes -= len(oldest)


def encode_completion(
    prompt: Prompt,
    *,
    dialect: Dialect,
    model: str,
    api_key: str | None = None,
    url_for: Callable[[ImagePart], bytes] | None = None,
    engine: str = "",
    session: bool = False,
    adapter: str | None = None,
) -> WireRequest:
    """The streaming request for a prompt.

    Args:
        prompt: what is asked.
        dialect: of the engine.
        model: name that the engine serves it under.
        api_key: sent as bearer token.
        url_for: gives the `data:` URL of an image as a JSON string; by default it is encoded on the spot.
        engine: id, for errors.
        session: name the episode, so that the engine keeps its KV until it is closed (SGLang's session radix cache).
        adapter: LoRA adapter that shall answer.

    Raises:
        EngineRefused: the engine understands no form of the constraint or no adapters, or the body would be too large.
        ValueError: the routing key or the key holds characters that no header can carry.
    """
    url_for = url_for or partial(ImageUrls().url_for, now=0.0)
    if adapter is not None and dialect is not Dialect.SGLANG:
        model = _adapter_model(adapter, dialect, engine)
    fields: dict[str, Any] = {"max_tokens": prompt.max_tokens, "temperature": prompt.temperature}
    if prompt.stop:
        fields["stop"] = list(prompt.stop)
    fields["stream"] = True
    fields["stream_options"] = {"include_usage": True}
    fields |= _constraint_fields(prompt.constraint, dialect, engine)
    if dialect is Dialect.SGLANG:
        fields |= {"rid": prompt.request_id, "cache_salt": prompt.tenant}
        if adapter is not None:
            fields["lora_path"] = adapter
        if session:
            fields["session_id"] = prompt.routing_key
    elif dialect is Dialect.VLLM:
        fields |= {"request_id": prompt.request_id, "cache_salt": prompt.tenant}
    # Put together by hand, and copied once: a JSON encoder would look at every character of every image again.
    pieces = [b'{"model":', _json(model), b',"messages":[']
    for number, message in enumerate(prompt.messages):
        if number:
            pieces.append(b",")
        _add_message(pieces, message, url_for)
    pieces += [b"],", _json(fields)[1:]]
    body = b"".join(pieces)
    if len(body) > MAX_BODY_BYTES:
        raise EngineRefused(
            f"the request would be {len(body)} bytes, and {MAX_BODY_BYTES} are allowed: send fewer or smaller images",
            engine=engine,
        )
    headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")]
    if api_key is not None:
        headers.append(("Authorization", f"Bearer {_header_value('the API key', api_key, shown=False)}"))
    headers.append(("X-SMG-Routing-Key", _header_value("the routing key", prompt.routing_key)))
    return WireRequest(COMPLETIONS_PATH, tuple(headers), body)


def encode_abort(request_id: str) -> bytes:
    """Body of `POST /abort_request`."""
    return json.dumps({"rid": request_id}, separators=(",", ":")).encode()


def encode_close_session(routing_key: str) -> bytes:
    """Body of `POST /close_session`."""
    return json.dumps({"session_id": routing_key}, separators=(",", ":")).encode()


def _adapter_model(adapter: str, dialect: Dialect, engine: str) -> str:
    """The servers of vLLM and its like serve an adapter as a model of its own."""
    if dialect is Dialect.LLAMACPP:
        raise EngineRefused(
            f"the tenant wants the adapter {adapter!r}, and the llamacpp dialect cannot choose one: use another engine",
            engine=engine,
        )
    return adapter


def _add_message(pieces: list[bytes], message: Message, url_for: Callable[[ImagePart], bytes]) -> None:
    pieces += [b'{"role":', _json(message.role), b',"content":']
    if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
        pieces += [_json(message.parts[0].text), b"}"]  # some servers take no list for `system`
        return
    between = b"["
    for part in message.parts:
        if isinstance(part, TextPart):
            pieces += [between, b'{"type":"text","text":', _json(part.text), b"}"]
        else:
            pieces += [between, b'{"type":"image_url","image_url":{"url":', url_for(part), b"}}"]
        between = b","
    pieces.append(b"]}" if message.parts else b"[]}")


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace")


def _constraint_fields(constraint: Constraint, dialect: Dialect, engine: str) -> dict[str, Any]:
    """The one form of the constraint that is sent: the tightest that the engine understands."""
    if constraint.is_empty:
        return {}
    schema = None if constraint.json_schema is None else json.loads(constraint.json_schema)
    response_format = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}
    }
    forms: dict[str, Any]  # {why it may be sent: fields}; the first whose source is there is taken
    match dialect:
        case Dialect.SGLANG:
            forms = {
                "regex": {"regex": constraint.regex},
                "ebnf": {"ebnf": constraint.ebnf},
                "json_schema": response_format,
            }
        case Dialect.VLLM:
            forms = {
                "regex": {"structured_outputs": {"regex": constraint.regex}},
                "ebnf": {"structured_outputs": {"grammar": constraint.ebnf}},
                "gbnf": {"structured_outputs": {"grammar": constraint.gbnf}},
                "json_schema": {"structured_outputs": {"json": schema}},
            }
        case Dialect.LLAMACPP:
            forms = {"gbnf": {"grammar": constraint.gbnf}, "json_schema": {"json_schema": schema}}
        case Dialect.OPENAI:
            forms = {"json_schema": response_format}
    for form, fields in forms.items():
        if getattr(constraint, form) is not None:
            chosen: dict[str, Any] = fields
            return chosen
    given = [field.name for field in attrs.fields(Constraint) if getattr(constraint, field.name) is not None]
    raise EngineRefused(
        f"the prompt is constrained by {', '.join(given)}, and the {dialect} dialect knows only {', '.join(forms)}: "
        "set `constrained = false` in the model profile, or use another engine",
        engine=engine,
    )


def _header_value(what: str, value: str, *, shown: bool = True) -> str:
    if not value or not all(" " <= char <= "~" for char in value):
        raise ValueError(f"{what} must be printable ASCII" + (f", not {value!r}" if shown else ""))
    return value
