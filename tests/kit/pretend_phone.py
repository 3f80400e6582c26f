"""A phone that only pretends, for setups; and the keeper of a game with a gate on it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import trio

from actors.accounts import Account, AccountPools, Secrets
from actors.assets import AppAssets
from actors.devices.base import DeviceError, DeviceInfo, ShellResult
from actors.rulefile import parse_rule_file
from actors.scenario import AppConfig
from actors.setup import AppKeeper
from actors.setup_config import SetupConfig, TeardownConfig
from inference.profile import ModelProfile
from policies.action import Action, Tap, Text
from policies.flow import FlowAction, FlowStep
from policies.frame import Frame
from policies.geometry import Geometry
from policies.perception import compile_probes
from policies.reflex import Condition
from runtime.ids import PhoneId
from runtime.secret import Secret
from tests.kit.gate_app import COLORS, GATE_RULES

PASSWORD = "correct horse battery"
INFO = DeviceInfo(PhoneId("P0"), "here:1", "Pretend", "13")
LOGIN = FlowStep(
    "log in", (Condition("login"),), FlowAction(tap_match="login"), (Condition("lobby"),), timeout_seconds=5.0
)
TYPE = FlowStep("password", (Condition("login"),), FlowAction(text="${account.password}"))


@attrs.define(eq=False)
class PretendPhone:
    """Implements `Device` as far as a setup needs it."""

    screen: str = "login"
    after_tap: str = "lobby"
    installed: bool = False
    info: DeviceInfo = INFO
    done: list[str] = attrs.field(factory=list)
    refuse: Callable[[str], DeviceError | None] = lambda _: None
    captures: int = 0

    def _maybe_refuse(self, what: str) -> None:
        error = self.refuse(what)
        if error is not None:
            raise error

    async def capture(self) -> Frame:
        await trio.sleep(0.01)
        self._maybe_refuse("capture")
        self.captures += 1
        pixels = np.empty((1280, 720, 3), np.uint8)
        pixels[:] = COLORS[self.screen][::-1]
        now = trio.current_time()
        return Frame(pixels, self.captures, now, now, Geometry(720, 1280), 0)

    async def act(self, action: Action) -> None:
        await trio.sleep(0.01)
        line = f"input text {action.text}" if isinstance(action, Text) else type(action).__name__
        self._maybe_refuse(line)
        self.done.append(line)
        if isinstance(action, Tap):
            self.screen = self.after_tap

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        await trio.sleep(0.01)
        self._maybe_refuse(command)
        if command.startswith("pm path"):
            return ShellResult(b"package:/data/app/x\n" if self.installed else b"", b"", 0 if self.installed else 1)
        self.done.append(command)
        return ShellResult(b"Success\n" if command.startswith("pm ") else b"", b"", 0)

    async def install(self, apks: Sequence[Path]) -> None:
        self.done.append(f"install {' '.join(apk.name for apk in apks)}")
        self.installed = True

    def statistics(self) -> Any:
        raise NotImplementedError


def keeper(
    setup: SetupConfig | None = None, teardown: TeardownConfig | None = None, apks: tuple[Path, ...] = (), **app: Any
) -> AppKeeper:
    rules = parse_rule_file(GATE_RULES.encode(), "gate.rules.toml")
    accounts = (Account("main", "ann", Secret("ann@example.test"), Secret(PASSWORD)),)
    config = AppConfig("play", "dev.corral.gate", activity=".Main", setup=setup, teardown=teardown, **app)
    return AppKeeper(
        config,
        AppAssets(rules, compile_probes(rules.probes, {}), ModelProfile(), apks),
        AccountPools(accounts),
        Secrets(accounts),
        every_seconds=0.5,
        tell=lambda *_, **__: None,
    )
