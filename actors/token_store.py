"""Tokens of people and programs: one file that holds their hashes, their tenants and their roles, and no token.

A token is 256 random bits, so that its SHA-256 gives nothing away and a slow hash would gain nothing. It is shown once,
when it is made. Running servers notice a changed file by themselves.
"""

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs

from runtime.ids import TenantId, is_legal_id
from runtime.secret import Secret
from runtime.telemetry import emit
from sqlassist.messages import Asker

VERSION = 1
MAX_USER = 96
MAX_FILE_BYTES = 16 << 20  # tens of thousands of tokens
_TOKEN = re.compile(r"corral_([0-9a-f]{12})_([0-9a-f]{64})")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    """Look and ask."""
    OPERATOR = "operator"
    """Also start and stop runs."""
    REVIEWER = "reviewer"
    """Also decide on reviews of answers."""
    ADMIN = "admin"
    """Everything."""


class TokenStoreError(Exception):
    """The file of tokens cannot be used, or what was asked of it cannot be done: the text says why and what to do."""


@attrs.frozen
class TokenRecord:
    """What is known of a token; never the token."""

    id: str
    user: str
    tenant: TenantId
    roles: tuple[Role, ...]
    digest: str = attrs.field(repr=False)
    """SHA-256 of its secret part."""
    created_at: str
    """UTC."""
    expires_at: str | None = None
    """UTC; None: never."""

    @property
    def asker(self) -> Asker:
        """Who speaks when it is shown."""
        return Asker(self.user, self.tenant, frozenset(role.value for role in self.roles))

    def is_expired(self, now: datetime) -> bool:
        """True from its last moment on."""
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now

    def as_json(self) -> dict[str, Any]:
        """For people and programs: without the digest."""
        return {
            "id": self.id,
            "user": self.user,
            "tenant": self.tenant,
            "roles": [role.value for role in self.roles],
            "created_at": self.created_at,
            "expires_at": self.expires_at,
        }


@attrs.define(eq=False)
class TokenStore:
    """The tokens of a file, as it is now. One that has become unreadable is told, and what it held before holds on."""

    path: Path
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _records: dict[str, TokenRecord] = attrs.field(factory=dict, init=False)
    _stamp: tuple[int, int, int] | None = attrs.field(default=None, init=False)

    def load(self) -> None:
        """Read the file; called before the first use, so that a wrong one is told at once.

        Raises:
            TokenStoreError: it is missing, others may read it, or it is no file of tokens.
        """
        stamp = _stamp_of(self.path)
        if stamp is None:
            raise TokenStoreError(f"{self.path} is missing: corral token create --file {self.path} makes it")
        self._records = {record.id: record for record in read_tokens(self.path)}
        self._stamp = stamp

    def record_for(self, token: str) -> TokenRecord | None:
        """Whose token this is; None: nobody's, or it has expired."""
        self._refresh()
        parts = _TOKEN.fullmatch(token)
        record = self._records.get(parts[1]) if parts else None
        digest = _digest_of(parts[2] if parts else "")
        same = hmac.compare_digest(digest, record.digest if record is not None else _NOBODY)
        return record if same and record is not None and not record.is_expired(self.now()) else None

    def record_of(self, name: str) -> TokenRecord | None:
        """The token of this id, while it is good: for what stands for a token, and was checked otherwise."""
        self._refresh()
        record = self._records.get(name)
        return record if record is not None and not record.is_expired(self.now()) else None

    def is_valid(self, record: TokenRecord) -> bool:
        """Whether a token that was good once still is, with the same tenant and roles."""
        self._refresh()
        return self._records.get(record.id) == record and not record.is_expired(self.now())

    def _refresh(self) -> None:
        stamp = _stamp_of(self.path)
        if stamp == self._stamp:
            return
        if stamp is None:  # removed: nobody's token is good any more
            self._records = {}
        else:
            try:
                self._records = {record.id: record for record in read_tokens(self.path)}
            except TokenStoreError as error:
                emit("actors.tokens.unreadable", level="error", error=str(error))
        self._stamp = stamp


def create_token(
    path: Path, *, user: str, tenant: TenantId, roles: Sequence[Role], now: datetime, expires_at: datetime | None = None
) -> tuple[TokenRecord, Secret]:
    """Make a token and write down what must be known of it; the file is made where there is none.

    Raises:
        TokenStoreError: a name is not legal, or the file cannot be read or written.
    """
    if not is_legal_id(tenant):
        raise TokenStoreError(f"tenant {tenant!r} must be made of letters, digits, dot, dash and underscore")
    if not _is_user(user):
        raise TokenStoreError(f"user {user!r} must be 1 to {MAX_USER} printable characters")
    if not roles:
        raise TokenStoreError("a token needs at least one role")
    if expires_at is not None and expires_at <= now:
        raise TokenStoreError(f"it would have expired already, at {expires_at.isoformat(timespec='seconds')}")
    with _changing(path) as records:
        name = secrets.token_hex(6)
        secret = secrets.token_hex(32)
        record = TokenRecord(
            name,
            user,
            tenant,
            tuple(sorted(set(roles))),
            _digest_of(secret),
            now.astimezone(UTC).isoformat(timespec="seconds"),
            None if expires_at is None else expires_at.astimezone(UTC).isoformat(timespec="seconds"),
        )
        records[name] = record
    return record, Secret(f"corral_{name}_{secret}")


def revoke_token(path: Path, name: str) -> TokenRecord:
    """Remove a token; servers that use the file end its sessions.

    Raises:
        TokenStoreError: there is no such token, or the file cannot be read or written.
    """
    if not path.exists():
        raise TokenStoreError(f"{path} is missing: there is no token to revoke")
    with _changing(path) as records:
        if name not in records:
            raise TokenStoreError(f"there is no token {name!r} in {path}: corral token list shows their ids")
        return records.pop(name)


def read_tokens(path: Path) -> tuple[TokenRecord, ...]:
    """Every token of a file, in the order in which they were made.

    Raises:
        TokenStoreError: it cannot be read, others may read it, or it is no file of tokens.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & 0o077:
                raise TokenStoreError(f"{path} may be read by others (mode {mode & 0o777:o}): chmod 600 {path}")
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise TokenStoreError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _records(text)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TokenStoreError(f"{path} is no file of tokens: {error}") from error


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, TokenRecord]]:
    """The records of a file, written back when the block ends without an error; one process at a time."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise TokenStoreError(f"{path} cannot be changed: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        records = {record.id: record for record in (read_tokens(path) if path.exists() else ())}
        yield records
        try:
            _write(path, records)
        except OSError as error:
            raise TokenStoreError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        os.close(lock)


def _write(path: Path, records: dict[str, TokenRecord]) -> None:
    """Whole and on disk, or not at all."""
    tokens = [{**record.as_json(), "sha256": record.digest} for record in records.values()]
    text = json.dumps({"version": VERSION, "tokens": tokens}, indent=1, ensure_ascii=False) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        draft.unlink(missing_ok=True)


def _records(text: bytes) -> tuple[TokenRecord, ...]:
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    return tuple(_record(one) for one in data["tokens"])


def _record(data: Any) -> TokenRecord:
    record = TokenRecord(
        id=_text(data, "id"),
        user=_text(data, "user"),
        tenant=TenantId(_text(data, "tenant")),
        roles=tuple(Role(role) for role in data["roles"]),
        digest=_text(data, "sha256"),
        created_at=_text(data, "created_at"),
        expires_at=None if data["expires_at"] is None else _text(data, "expires_at"),
    )
    if not _DIGEST.fullmatch(record.digest) or not is_legal_id(record.tenant) or not _is_user(record.user):
        raise ValueError(f"token {record.id!r} is damaged")
    if record.expires_at is not None and datetime.fromisoformat(record.expires_at).tzinfo is None:
        raise ValueError(f"token {record.id!r}: 'expires_at' has no time zone")
    return record


def _text(data: Any, key: str) -> str:
    value = data[key]
    if not isinstance(value, str):
        raise TypeError(f"{key!r} is no text")
    return value


def _is_user(user: str) -> bool:
    return 0 < len(user) <= MAX_USER and user.isprintable() and user == user.strip()


def _digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size


_NOBODY = "0" * 64
