"""What each user asked, and how it ended: JSON lines in one file a user, or in memory. No rows are kept."""

import hashlib
import json
import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio

from runtime.ids import slug_for
from runtime.telemetry import counter, emit
from sqlassist.messages import Asker
from sqlassist.protocol import MAX_HISTORY

MOST_BYTES = 2 << 20  # of a file; past it only its newest half is kept
MAX_USERS_IN_MEMORY = 1000

_LOST = counter("assistant_history_lost_questions_total", "Questions that the history of their user did not take.")


@attrs.define(eq=False)
class QuestionHistory:
    """Histories of all users. Writing never fails a question: what cannot be written is told and counted."""

    folder: Path | None
    """None: in memory, as long as the process lives."""
    _memory: dict[tuple[str, str], deque[Mapping[str, Any]]] = attrs.field(factory=dict, init=False)
    _writing: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def append(self, asker: Asker, entry: Mapping[str, Any]) -> None:
        """Add a question that is over."""
        if self.folder is None:
            key = (asker.tenant, asker.user)
            if key not in self._memory and len(self._memory) >= MAX_USERS_IN_MEMORY:
                del self._memory[next(iter(self._memory))]
            self._memory.setdefault(key, deque(maxlen=MAX_HISTORY)).append(dict(entry))
            return
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        async with self._writing:
            try:
                await trio.to_thread.run_sync(_append, _file_of(self.folder, asker), line)
            except OSError as error:
                _LOST.inc()
                emit("actors.history.lost", level="error", tenant=asker.tenant, error=error.strerror)

    async def newest(self, asker: Asker, limit: int) -> tuple[Mapping[str, Any], ...]:
        """The newest questions of a user, newest first; none where the file cannot be read, which is told."""
        if self.folder is None:
            known = self._memory.get((asker.tenant, asker.user), ())
            return tuple(reversed(known))[:limit]
        try:
            return await trio.to_thread.run_sync(_newest, _file_of(self.folder, asker), limit)
        except OSError as error:
            emit("actors.history.unreadable", level="error", tenant=asker.tenant, error=error.strerror)
            return ()


def _file_of(folder: Path, asker: Asker) -> Path:
    """Two users never share a file, whatever their names."""
    digest = hashlib.sha256(asker.user.encode()).hexdigest()[:16]
    return folder / asker.tenant / f"{slug_for(asker.user)}-{digest}.jsonl"


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab+") as file:
        size = file.seek(0, os.SEEK_END)
        is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"  # a lost machine cut the last line off
        file.write(b"\n" * is_torn + line.encode("utf-8", "backslashreplace"))
        size = file.tell()
    if size > MOST_BYTES:
        kept = path.read_bytes()[-MOST_BYTES // 2 :].partition(b"\n")[2]
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(kept)
        draft.replace(path)


def _newest(path: Path, limit: int) -> tuple[Mapping[str, Any], ...]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    found: list[Mapping[str, Any]] = []
    for line in reversed(lines):
        if len(found) == limit:
            break
        try:
            entry = json.loads(line)
        except ValueError:  # cut by a full disk or a lost machine
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return tuple(found)
