"""Short-lived stand-ins for tokens: HMAC-SHA256 over whose token it is and until when. Pure.

A ticket names a token and its end, and is signed together with the token's user, tenant and roles. Whoever takes one
looks the token up and checks the signature against what it is now: a ticket of a token that was revoked or changed is
nobody's.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Sequence

import attrs

MAX_SECONDS = 600
KEY_BYTES = 32
_TICKET = re.compile(r"ticket_([0-9a-f]{12})_([0-9]{1,12})_([0-9a-f]{64})")


@attrs.frozen
class Claims:
    """Whom a ticket stands for."""

    token: str
    """Its id."""
    user: str
    tenant: str
    roles: tuple[str, ...]


@attrs.frozen
class Ticket:
    """A ticket as it was shown: nothing of it is true before `is_good`."""

    token: str
    expires_at: int
    """Seconds since 1970."""
    signature: str = attrs.field(repr=False)

    def is_good(self, key: bytes, claims: Claims, now: float) -> bool:
        """Signed with this key for exactly these claims, and not over. How long it takes tells nothing of the key."""
        same = hmac.compare_digest(self.signature, _signature(key, claims, self.expires_at))
        return same and claims.token == self.token and now < self.expires_at <= now + MAX_SECONDS + 1


def sign(key: bytes, claims: Claims, expires_at: int) -> str:
    """The ticket's text: 97 letters at most, whoever it is for."""
    return f"ticket_{claims.token}_{expires_at}_{_signature(key, claims, expires_at)}"


def parse_ticket(text: str) -> Ticket | None:
    """Read one; None: it has not the form of a ticket."""
    parts = _TICKET.fullmatch(text)
    return None if parts is None else Ticket(parts[1], int(parts[2]), parts[3])


def _signature(key: bytes, claims: Claims, expires_at: int) -> str:
    roles: Sequence[str] = sorted(claims.roles)
    # a JSON array: no two lists of fields have one text
    text = json.dumps(["corral ticket 1", claims.token, expires_at, claims.user, claims.tenant, roles])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
