"""Recorded pictures as phones of a scenario, so that rules and models are tried on what was seen."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import attrs

from actors.authoring.frames import frames_in
from actors.configuration import ScenarioError
from actors.devices.base import Device, DeviceError
from actors.devices.replay import open_replay
from actors.discovery import FoundPhone
from actors.scenario import AppConfig, CommandReading, LogcatReading, ReplayPhones, Scenario
from actors.setup_config import SetupConfig, TeardownConfig
from runtime.ids import PhoneId, slug_for


async def restart_nothing(device: Device, app: AppConfig) -> None:
    """A `RestartApp`: there is no app, and the pictures go on."""
    del device, app


def replay_phones(scenario: Scenario, folder: Path) -> list[FoundPhone]:
    """One phone a group, its pictures found.

    Args:
        scenario: Whose groups.
        folder: The scenario file's own; `source` is relative to it.

    Returns:
        Each with `pictures`; a run folder's are those of the group's app, in the order they were seen.

    Raises:
        DeviceError: there is no picture; the text says where.
    """
    found = []
    for index, group in enumerate(scenario.phones):
        if isinstance(group, ReplayPhones):
            source = folder / group.source
            name = PhoneId(f"replay-{index}-{slug_for(source.name)}"[:64])
            pictures = pictures_of(source, group.app)
            found.append(FoundPhone(name, str(source), group.app, group.bot, replay=group, pictures=pictures))
    return found


def pictures_of(source: Path, app: str) -> tuple[Path, ...]:
    """The pictures of a file, a folder of pictures, a run or an episode; of a run those of one app alone.

    Raises:
        DeviceError: there is none.
    """
    try:
        frames = frames_in(source)
    except ScenarioError as error:
        raise DeviceError("; ".join(str(problem) for problem in error.problems)) from error
    pictures = tuple(frame.path for frame in frames if frame.app in ("", app))
    if not pictures:
        others = ", ".join(sorted({frame.app for frame in frames}))
        raise DeviceError(f"{source}: no frames of {app!r} in it, but of {others}")
    return pictures


def app_for_replay(app: AppConfig) -> AppConfig:
    """An app as far as recorded pictures have it: there is nothing to install, log in or stop, and no log to read."""
    return attrs.evolve(
        app,
        setup=SetupConfig(start=False),
        teardown=TeardownConfig(stop=False),
        score=None if isinstance(app.score, LogcatReading | CommandReading) else app.score,
        goal_reached=None if isinstance(app.goal_reached, LogcatReading | CommandReading) else app.goal_reached,
    )


def open_replayed(found: FoundPhone, *, max_side: int | None) -> AbstractAsyncContextManager[Device]:
    """The phone, showing its first picture at its first capture."""
    group = found.replay
    assert group is not None, "a phone of recorded pictures"
    return open_replay(
        found.pictures, phone=found.phone, every_seconds=group.every_seconds, loops=group.loops, max_side=max_side
    )
