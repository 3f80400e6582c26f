"""`corral assistant serve` with scripted answers, as a process: `python -m tests.kit.scripted_assistant CONFIG`."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

from tests.kit.answering import ScriptedAnswering


@asynccontextmanager
async def open_answering(config: Any, models: Any = None) -> AsyncIterator[ScriptedAnswering]:
    """What stands for `actors.assistant.open_answering`."""
    del config, models
    yield ScriptedAnswering()


def scripted_module() -> ModuleType:
    """What stands for `actors.assistant`."""
    module = ModuleType("actors.assistant")
    module.open_answering = open_answering  # type: ignore[attr-defined]
    return module


if __name__ == "__main__":
    sys.modules["actors.assistant"] = scripted_module()
    from actors.cli.main import corral

    corral(["assistant", "serve", *sys.argv[1:]])
