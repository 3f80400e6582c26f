"""The schema file of the assistant's protocol, to hold messages against."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

_SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "assistant-protocol.schema.json").read_text("utf-8"))


def _validator(name: str) -> Any:
    return jsonschema.Draft202012Validator({"$defs": _SCHEMA["$defs"], "$ref": f"#/$defs/{name}"})


_REQUEST, _REPLY = _validator("request"), _validator("reply")


def is_request(text: str) -> bool:
    """What the schema says of a client's message."""
    valid: bool = _REQUEST.is_valid(json.loads(text))
    return valid


def check_request(text: str) -> str:
    """The text again; raises `jsonschema.ValidationError` where it is no message of a client."""
    _REQUEST.validate(json.loads(text))
    return text


def check_reply(text: str) -> str:
    """The text again; raises `jsonschema.ValidationError` where it is no message of the assistant."""
    _REPLY.validate(json.loads(text))
    return text
