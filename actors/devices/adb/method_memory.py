"""Remembers, per model of phone, which capture method was best: a small file in the user's state folder."""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.devices.base import CaptureMethod, DeviceInfo
from policies.geometry import Geometry
from runtime.telemetry import emit

VERSION = 1
FILE_NAME = "capture-methods.json"


def memory_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the file is: `$XDG_STATE_HOME/corral`, else `~/.local/state/corral`."""
    base = environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path(environ.get("HOME", "/")) / ".local" / "state"
    return folder / "corral" / FILE_NAME


def memory_key(info: DeviceInfo, geometry: Geometry, *, has_stream: bool) -> str:
    """One entry for all phones of a model, Android version and size, with or without a scrcpy server at hand."""
    sides = sorted((geometry.width, geometry.height))
    return f"{info.model}|{info.android}|{sides[0]}x{sides[1]}|{'scrcpy' if has_stream else 'plain'}"


@attrs.define(eq=False)
class MethodMemory:
    """The file, read when it is first needed. With no path it remembers until it is thrown away."""

    path: Path | None = None
    _known: dict[str, CaptureMethod] | None = attrs.field(init=False, default=None)
    _locks: dict[str, trio.Lock] = attrs.field(init=False, factory=dict)

    @asynccontextmanager
    async def measuring(self, key: str) -> AsyncIterator[None]:
        """Only one phone of a model measures at a time: those that wait find its result."""
        async with self._locks.setdefault(key, trio.Lock()):
            yield

    async def get(self, key: str) -> CaptureMethod | None:
        """What was best; None where it is not known."""
        return (await self._load()).get(key)

    async def put(self, key: str, method: CaptureMethod) -> None:
        """Remember it. A file that cannot be written is told of, and does no other harm."""
        known = await self._load()
        known[key] = method
        await self._save(known)

    async def forget(self, key: str) -> None:
        """It was not good after all: the next phone of the model measures again."""
        known = await self._load()
        if known.pop(key, None) is not None:
            await self._save(known)

    async def _load(self) -> dict[str, CaptureMethod]:
        if self._known is None:
            self._known = {}
            if self.path is not None:
                try:
                    self._known = parse_memory(await trio.Path(self.path).read_bytes())
                except FileNotFoundError:
                    return self._known
                except (OSError, ValueError) as error:
                    emit("actors.capture.memory_unreadable", level="warning", path=str(self.path), error=str(error))
        return self._known

    async def _save(self, known: Mapping[str, CaptureMethod]) -> None:
        if self.path is None:
            return
        path = trio.Path(self.path)
        partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
        try:
            await path.parent.mkdir(parents=True, exist_ok=True)
            await partial.write_text(encode_memory(known), encoding="utf-8")
            await partial.replace(path)
        except OSError as error:
            emit("actors.capture.memory_unwritable", level="warning", path=str(path), error=str(error))


def encode_memory(known: Mapping[str, CaptureMethod]) -> str:
    """The file's text."""
    methods = {key: method.value for key, method in sorted(known.items())}
    return json.dumps({"version": VERSION, "methods": methods}, indent=1, ensure_ascii=False) + "\n"


def parse_memory(content: bytes) -> dict[str, CaptureMethod]:
    """What a file says.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    said: Any = json.loads(content)
    if not isinstance(said, dict) or said.get("version") != VERSION or not isinstance(said.get("methods"), dict):
        raise ValueError(f"no capture methods of version {VERSION}")
    return {str(key): CaptureMethod(method) for key, method in said["methods"].items()}
