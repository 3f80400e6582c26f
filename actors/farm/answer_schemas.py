"""What the main answers of the API look like, as JSON schemas of its document. Pure."""

from collections.abc import Mapping
from typing import Any

from actors.farm.work import AttemptOutcome, RunState
from actors.results.finding_words import FindingKind, FindingState

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number", "minimum": 0}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}


def _object(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def _listed(name: str, item: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return _object({name: {"type": "array", "items": item}, **more})


_RUN = {
    "run": _TEXT,
    "number": _COUNT,
    "state": {"enum": [one.value for one in RunState]},
    "held": _TEXT_OR_NULL,
    "reason": _TEXT,
    "flaky": _FLAG,
    "pinned": _FLAG,
    "tenant": _TEXT,
    "user": _TEXT,
    "scenario": _TEXT,
    "is_text": _FLAG,
    "phones": _COUNT,
    "labels": _TEXTS,
    "priority": _COUNT,
    "repeats": _COUNT,
    "submitted_at": _TEXT,
    "ready_at": _TEXT,
    "ended_at": _TEXT_OR_NULL,
}
_COSTS = _object(
    {
        "tokens": _object({"input": _COUNT, "cached": _COUNT, "output": _COUNT}),
        "gpu_seconds": _NUMBER,
        "phone_minutes": _NUMBER,
        "money": _NUMBER,
        "currency": _TEXT,
        "complete": _FLAG,
    }
)
_ATTEMPT = {
    "attempt": _TEXT,
    "number": _COUNT,
    "outcome": {"enum": [one.value for one in AttemptOutcome]},
    "reason": _TEXT,
    "phones": _TEXTS,
    "exit_code": {"type": ["integer", "null"]},
    "started_at": _TEXT,
    "ended_at": _TEXT_OR_NULL,
    "removed": _TEXT_OR_NULL,
    "costs": _COSTS,
    "phone_minutes": _NUMBER,
    "cost": _NUMBER,
    "currency": _TEXT,
}
_FINDING = {
    "id": _TEXT,
    "kind": {"enum": [one.value for one in FindingKind]},
    "app": _TEXT,
    "title": _TEXT,
    "state": {"enum": [one.value for one in FindingState]},
    "regressed": _FLAG,
    "first_seen": _TEXT_OR_NULL,
    "last_seen": _TEXT_OR_NULL,
    "count": _COUNT,
    "runs": _TEXTS,
    "flaky": _FLAG,
    "note": _TEXT,
    "example": {"type": ["object", "null"]},
    "examples": {"type": "array", "items": {"type": "object"}},
    "costs": _COSTS,
}
_FINDING_REF = {"$ref": "#/components/schemas/Finding"}
_PHONE = {
    "phone": _TEXT,
    "pool": _TEXT,
    "simulated": _FLAG,
    "labels": _TEXTS,
    "state": {"enum": ["free", "busy", "paused"]},
    "attempt": _TEXT_OR_NULL,
    "paused": _FLAG,
    "paused_by": _TEXT_OR_NULL,
}
_RUN_REF = {"$ref": "#/components/schemas/Run"}

ANSWERS: Mapping[str, Any] = {
    "Finding": _object(_FINDING),
    "Findings": _listed(
        "findings", _FINDING_REF, screens=_object(dict.fromkeys(("kept", "most", "forgotten"), _COUNT))
    ),
    "FindingWhole": {"allOf": [_FINDING_REF, _object({"repro": {"type": ["object", "null"]}})]},
    "Run": _object(_RUN, costs=_COSTS),
    "Runs": _listed("runs", _RUN_REF, before={"type": ["integer", "null"]}),
    "RunWhole": {
        "allOf": [
            _RUN_REF,
            _object(
                {
                    "attempts": {"type": "array", "items": _object(_ATTEMPT)},
                    "progress": {"type": "array", "items": {"type": "object"}},
                }
            ),
        ]
    },
    "Farm": _object(
        {
            "playing": _COUNT,
            "queued": _COUNT,
            "phones": _COUNT,
            "busy_phones": _COUNT,
            "paused_phones": _COUNT,
            "draining": _FLAG,
            "drained": _FLAG,
            "since": _TEXT_OR_NULL,
        }
    ),
    "Scenarios": _object({"scenarios": _TEXTS}),
    "Phones": _listed("phones", _object(_PHONE)),
    "Audit": _listed("actions", _object(dict.fromkeys(("at", "user", "tenant", "action", "target"), _TEXT))),
    "Engines": _listed(
        "engines",
        _object({"engine": _TEXT, "model": _TEXT, "state": _TEXT}),
        rollout={"type": ["object", "null"]},
        held=_TEXTS,
    ),
    "Alive": _object({"alive": _FLAG}),
    "Ready": _object({"ready": _FLAG, "why": _TEXT}),
}
"""Keys may be added to them: a client reads those that it knows."""
