"""Identifiers as distinct types, so that a phone can never be passed where an engine is meant."""

import re
from typing import NewType

PhoneId = NewType("PhoneId", str)
EpisodeId = NewType("EpisodeId", str)
EngineId = NewType("EngineId", str)
TenantId = NewType("TenantId", str)
ActorId = NewType("ActorId", str)

MAX_ID_LENGTH = 96  # a folder name, a routing key and a session id at once; SGLang and ext4 both take more
DEFAULT_TENANT = TenantId("default")

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,96}")
_ILLEGAL_RUN = re.compile(r"[^A-Za-z0-9._-]+")


def is_legal_id(text: str) -> bool:
    """True when `text` can be used unchanged as folder, routing key, session and warehouse key."""
    return bool(_LEGAL.fullmatch(text)) and text not in {".", ".."}


def slug_for(text: str, *, max_length: int = 40) -> str:
    """Make a legal id out of any text, e.g. `127.0.0.1:16000` → `127.0.0.1-16000`.

    Two texts may give one slug: whoever needs uniqueness adds a number.
    """
    slug = _ILLEGAL_RUN.sub("-", text).strip("-.")[:max_length].strip("-.")
    return slug or "x"


def episode_id_for(run_id: str, phone: PhoneId, number: int) -> EpisodeId:
    """`<run>-<phone slug>-<n>`, cut to `MAX_ID_LENGTH` in the phone's part only."""
    room = MAX_ID_LENGTH - len(run_id) - len(str(number)) - 2
    return EpisodeId(f"{run_id}-{slug_for(phone, max_length=room)}-{number}")
