"""Tickets of a farm: made for whoever holds a token, taken in its place; their key stays in the farm's folder."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import attrs

from actors.farm.database import StoreError
from actors.tickets import KEY_BYTES, Claims, parse_ticket, sign
from actors.token_store import TokenRecord, TokenStore
from runtime.secret import Secret

KEY_FILE = "ticket.key"


@attrs.define(eq=False)
class Ticketing:
    """Tokens, and tickets that stand for them."""

    tokens: TokenStore
    key: bytes = attrs.field(repr=False)
    now: Callable[[], float]
    """Seconds since 1970."""

    def ticket(self, record: TokenRecord, seconds: float) -> tuple[Secret, int]:
        """(a ticket for the holder of this token, when it ends)."""
        expires_at = int(self.now() + seconds)
        return Secret(sign(self.key, _claims(record), expires_at)), expires_at

    def record_for(self, text: str) -> TokenRecord | None:
        """Whose token or ticket this is; None: nobody's, or it is over."""
        shown = parse_ticket(text)
        if shown is None:
            return self.tokens.record_for(text)
        record = self.tokens.record_of(shown.token)
        return record if record is not None and shown.is_good(self.key, _claims(record), self.now()) else None

    def is_valid(self, record: TokenRecord) -> bool:
        """Whether the token that was shown, or stood for, is still good."""
        return self.tokens.is_valid(record)


def ticket_key(folder: Path) -> bytes:
    """The key of a farm, made where there is none, with mode 0600.

    Raises:
        StoreError: it cannot be read or made, or is damaged.
    """
    file = folder / KEY_FILE
    try:
        try:
            key = file.read_bytes()
        except FileNotFoundError:
            key = secrets.token_bytes(KEY_BYTES)
            draft = file.with_name(f".{file.name}.{os.getpid()}")  # whole or not there, whatever ends us
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as made:
                made.write(key)
                made.flush()
                os.fsync(made.fileno())
            draft.replace(file)
    except OSError as error:
        raise StoreError(f"{file} cannot be used: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise StoreError(f"{file} is damaged: remove it, and a new one is made")
    return key


def _claims(record: TokenRecord) -> Claims:
    return Claims(record.id, record.user, record.tenant, tuple(role.value for role in record.roles))
