"""The body of `/v1/chat/completions` as a checked value, with SGLang's words where it is refused."""

import base64
import binascii
import hashlib
import json
import re
from typing import Any

import attrs

from actors.rehearsal.engine.player.picture import jpeg_size
from actors.rehearsal.engine.prefix import Block, image_block, text_blocks

DEFAULT_MAX_TOKENS = 128
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class BadRequest(ValueError):
    """The client's fault; answered with `status` and this text."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@attrs.frozen
class ChatRequest:
    """One completion as it was asked for."""

    rid: str | None
    stream: bool
    include_usage: bool
    max_tokens: int
    stop: tuple[str, ...]
    salt: str
    """`cache_salt` and `extra_key` together: prompts of different salts share no cache."""
    blocks: tuple[Block, ...] = attrs.field(repr=False)
    """The prompt for the prefix cache, in the order in which it is sent."""
    text: str = attrs.field(repr=False)
    """All text of the last user message that has any."""
    image: bytes | None = attrs.field(repr=False)
    """The last picture's bytes."""
    session: str | None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt."""
        return sum(block.tokens for block in self.blocks)

    @property
    def image_tokens(self) -> int:
        """Tokens of its pictures."""
        return sum(block.tokens for block in self.blocks if block.is_image)


def parse_chat(body: bytes, *, context_length: int) -> ChatRequest:
    """Read a request body.

    Raises:
        BadRequest: it is no JSON, lacks something, has an image that is none, or is too long.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"Invalid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest("The body must be a JSON object")
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("Messages cannot be empty")
    blocks: list[Block] = []
    text, image = "", None
    for number, message in enumerate(messages):
        words, pictures = _read_message(message, number, blocks)
        if pictures:
            image = pictures[-1]
        if words and message["role"] == "user":
            text = "\n".join(words)
    _check_constraint(fields)
    request = ChatRequest(
        rid=_optional_text(fields, "rid"),
        stream=_flag(fields, "stream"),
        include_usage=isinstance(fields.get("stream_options"), dict)
        and fields["stream_options"].get("include_usage") is True,
        max_tokens=_max_tokens(fields),
        stop=_stop(fields.get("stop")),
        salt=json.dumps([fields.get("cache_salt"), fields.get("extra_key")]),
        blocks=tuple(blocks),
        text=text,
        image=image,
        session=_session(fields),
    )
    if request.prompt_tokens >= context_length:
        raise BadRequest(
            f"The input ({request.prompt_tokens} tokens) is longer than the model's context length "
            f"({context_length} tokens)."
        )
    return request


def _read_message(message: Any, number: int, blocks: list[Block]) -> tuple[list[str], list[bytes]]:
    """The message's texts and pictures; its blocks are appended."""
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise BadRequest(f"messages[{number}] needs a role out of {', '.join(sorted(ROLES))}")
    blocks += text_blocks(f"<{message['role']}>")
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if content is None and message["role"] == "assistant":
        content = []
    if not isinstance(content, list):
        raise BadRequest(f"messages[{number}].content must be text or a list of parts")
    words: list[str] = []
    pictures: list[bytes] = []
    for part in content:
        match part:
            case {"type": "text", "text": str(said)}:
                words.append(said)
                blocks += text_blocks(said)
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
                data = _image_bytes(url)
                size = jpeg_size(data)
                if size is None or 0 in size:
                    raise BadRequest("Failed to load image: cannot identify image file")
                pictures.append(data)
                blocks.append(image_block(hashlib.sha256(data).digest(), *size))
            case _:
                raise BadRequest(f"messages[{number}].content has a part that is neither text nor image_url")
    return words, pictures


def _image_bytes(url: str) -> bytes:
    if not url.startswith("data:image/"):
        # A real engine takes anything else for a path or an address; this one opens neither.
        raise BadRequest("Failed to load image: only data:image/...;base64, URLs are taken")
    head, comma, encoded = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise BadRequest("Failed to load image: the data: URL is not base64")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"Failed to load image: {error}") from error


def _check_constraint(fields: dict[str, Any]) -> None:
    regex = fields.get("regex")
    if regex is not None:
        if not isinstance(regex, str):
            raise BadRequest("regex must be a string")
        try:
            re.compile(regex)
        except re.error as error:
            raise BadRequest(f"Failed to compile regex grammar: {error}") from error
    if fields.get("ebnf") is not None and not isinstance(fields["ebnf"], str):
        raise BadRequest("ebnf must be a string")
    form = fields.get("response_format")
    if form is not None and not (isinstance(form, dict) and isinstance(form.get("type"), str)):
        raise BadRequest("response_format must be an object with a type")


def _max_tokens(fields: dict[str, Any]) -> int:
    value = fields.get("max_completion_tokens", fields.get("max_tokens"))
    if value is None:
        return DEFAULT_MAX_TOKENS
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRequest(f"max_tokens must be at least 1, got {value!r}.")
    return value


def _stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) and item for item in values):
        raise BadRequest("stop must be a string or a list of strings")
    return tuple(values)


def _optional_text(fields: dict[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{key} must be a string")
    return value


def _flag(fields: dict[str, Any], key: str) -> bool:
    value = fields.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{key} must be true or false")
    return bool(value)


def _session(fields: dict[str, Any]) -> str | None:
    params = fields.get("session_params")
    if params is None:
        return None
    if not isinstance(params, dict) or not isinstance(params.get("id"), str):
        raise BadRequest("session_params needs the id of an open session")
    return str(params["id"])
