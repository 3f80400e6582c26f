"""The OpenAPI document of the farm's API, made of its table of endpoints, so that it cannot leave one out. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from actors.farm.submission import MAX_LABELS
from actors.farm.work import MAX_PRIORITY, TIME_OF_DAY, OnInterrupt

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_TEXT = {"type": "string"}
DAILY: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["at"],
    "properties": {"at": {"type": "string", "pattern": f"^{TIME_OF_DAY}$"}, "zone": _TEXT},
}
"""A time of day of a place, as bodies have it: see `actors.farm.work.Daily`."""

SCHEMAS: Mapping[str, Any] = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": _TEXT, "problems": {"type": "array", "items": _TEXT}},
    },
    "Submission": {
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": ["scenario"]}, {"required": ["text"]}],
        "properties": {
            "scenario": {"type": "string", "pattern": r"^(?!\.)[A-Za-z0-9._-]{1,80}$"},
            "text": {"type": "string", "description": "A scenario as TOML that names nothing of this machine."},
            "labels": {"type": "array", "items": _TEXT, "maxItems": MAX_LABELS},
            "priority": {"type": "integer", "minimum": 0, "maximum": MAX_PRIORITY},
            "not_before": {"type": "string", "format": "date-time"},
            "daily": DAILY,
            "repeats": {"type": "integer", "minimum": 0, "maximum": 10},
            "on_interrupt": {"enum": [one.value for one in OnInterrupt]},
        },
    },
    "Resume": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"phone": {"type": "string", "description": "Go on after a person has helped there."}},
    },
}
_CODES = {
    "400": "The request is wrong.",
    "401": "There is no valid token.",
    "403": "The token's roles do not allow it.",
    "404": "There is no such thing, or it belongs to another tenant.",
    "408": "The body did not arrive in time.",
    "409": "It does not fit the present state.",
    "413": "The body is too large.",
    "422": "The scenario is wrong: every mistake is told.",
    "429": "Too many failed logins from this address.",
    "503": "The farm's state cannot be used at the moment.",
}


class Described(Protocol):
    """What the document needs of an endpoint."""

    @property
    def method(self) -> str:
        """GET."""
        ...

    @property
    def path(self) -> str:
        """/api/v1/runs/{run}."""
        ...

    @property
    def summary(self) -> str:
        """One line."""
        ...

    @property
    def query(self) -> Mapping[str, Mapping[str, Any]]:
        """Name → schema."""
        ...

    @property
    def body(self) -> str | None:
        """Name of a schema."""
        ...

    @property
    def answer(self) -> str:
        """Media type."""
        ...

    @property
    def schema(self) -> str | None:
        """Name of the schema of the answer."""
        ...

    @property
    def status(self) -> int:
        """Of the answer."""
        ...

    @property
    def need(self) -> str:
        """The role; `nobody` for none."""
        ...


def document_for(
    endpoints: Sequence[Described], version: str, schemas: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The whole document.

    Args:
        endpoints: Every one.
        version: Of the API.
        schemas: Of bodies, beside those that stand here.
    """
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = _PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Corral farm", "version": version},
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "corral_session"},
            },
            "schemas": {**SCHEMAS, **(schemas or {})},
        },
        "paths": paths,
    }


def _operation(endpoint: Described) -> dict[str, Any]:
    is_open = endpoint.need == "nobody"
    failed = {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    is_asked = not is_open or endpoint.body is not None  # a log-in needs no token, and shows one
    codes = {code: text for code, text in _CODES.items() if is_asked or code not in ("401", "403", "429")}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "description": "Needs no token." if is_open else f"Needs the role {endpoint.need}.",
        "security": [] if is_open else [{"token": []}, {"session": []}],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _TEXT}
            for name in _PARAMETER.findall(endpoint.path)
        ]
        + [{"name": name, "in": "query", "schema": dict(schema)} for name, schema in endpoint.query.items()],
        "responses": {
            str(endpoint.status): {"description": "Done.", "content": {endpoint.answer: _content(endpoint)}},
            **{code: {**failed, "description": text} for code, text in codes.items()},
        },
    }
    if endpoint.body is not None:
        schema = {"$ref": f"#/components/schemas/{endpoint.body}"}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


def _content(endpoint: Described) -> dict[str, Any]:
    if endpoint.schema is None:
        return {}
    return {"schema": {"$ref": f"#/components/schemas/{endpoint.schema}"}}
