"""Which of a phone's displays is captured: the one that apps, geometry and touches belong to."""

from collections.abc import Awaitable, Callable

import attrs

from actors.devices.adb.display import DISPLAYS_COMMAND, VIEWPORTS_COMMAND, parse_default_display, parse_display_ids
from actors.devices.base import ShellResult
from runtime.telemetry import emit

ANY_DISPLAY = ""
"""The phone warns of several displays and names none: its own choice is taken."""


@attrs.define(eq=False)
class DisplayChoice:
    """The display of one phone; it may change, as a foldable is opened and closed."""

    address: str
    shell: Callable[[str], Awaitable[ShellResult]]
    display: str | None = None
    """What `screencap -d` is given; None: nothing, as the phone has one display as far as is known."""

    async def choose(self, *, warned: bool = False) -> None:
        """Ask the phone.

        Args:
            warned: it has complained of displays; where it names none, `ANY_DISPLAY` is the choice.

        Raises:
            DeviceLost: it does not answer.
        """
        before = self.display
        known = parse_display_ids(_text(await self.shell(DISPLAYS_COMMAND)))
        if len(known) > 1:
            default = parse_default_display(_text(await self.shell(VIEWPORTS_COMMAND)))
            self.display = default if default in known else known[0]
        else:
            self.display = ANY_DISPLAY if warned else None
        if self.display != before:
            emit("actors.phone.display_chosen", phone=self.address, display=self.display, displays=len(known))


def _text(result: ShellResult) -> str:
    return result.stdout.decode("utf-8", "replace")
