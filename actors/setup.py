"""Brings an app to where an episode can begin, and puts it away after it: install, grant, start, log in, log out.

Nothing that is seen here is recorded: frames go to the flow's probes and are dropped. Texts are filled in at the
last moment, handed to the phone, and named by their template alone when something goes wrong.
"""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio

from actors.accounts import Account, AccountPools, NoFreeAccount, Secrets
from actors.app_control import (
    clear_app,
    grant_permission,
    install_app,
    is_installed,
    start_app,
    stop_app,
    uninstall_app,
)
from actors.assets import AppAssets
from actors.custody import Custody
from actors.devices.base import ActionRefused, CaptureFailed, Device, DeviceError, DeviceLost
from actors.scenario import AppConfig
from actors.session import NEEDS_HUMAN
from actors.setup_config import Reinstall, SetupConfig, TeardownConfig
from actors.slow_probes import perceive_all
from policies.action import Text
from policies.flow import FlowAct, FlowDone, FlowFailed, FlowPolicy, FlowRestart, FlowStep
from policies.frame import Frame
from policies.perception import Percept
from runtime.telemetry import emit

CAPTURE_RETRIES = 5  # as an episode: a broken screencap does not mend itself
TEARDOWN_SECONDS = 120.0  # a phone that cannot log out in two minutes is of more use playing on

Tell = Callable[..., None]
"""`(event, **fields)` into the run's events."""


@attrs.define(eq=False)
class AppKeeper:
    """One phone's app between episodes. It holds the account that the phone has leased, and outlives the phone."""

    app: AppConfig
    assets: AppAssets
    pools: AccountPools
    secrets: Secrets
    every_seconds: float
    """Between two looks at the screen."""
    tell: Tell
    account: Account | None = None
    state: str = ""
    """What it is at, for people; empty between its jobs."""
    paused: str | None = None
    """Why a person is needed; None while none is."""
    custody: Custody = attrs.field(factory=Custody)
    """While a person has the phone, a flow that waits for one waits on."""
    newest: Frame | None = attrs.field(init=False, default=None)
    """What the screen shows while a person is needed; nothing else of a flow is kept."""
    _resumed: bool = attrs.field(init=False, default=False)
    _wake: trio.Event = attrs.field(init=False, factory=trio.Event)

    # --- before an episode

    async def prepare(self, device: Device) -> str | None:
        """Do everything that `[apps.X.setup]` says, with an account of the pool.

        Returns:
            None, or why the flow did not get through, or no account was to be had.

        Raises:
            DeviceError: the phone refused; the account is free again, as whenever this does not return.
        """
        setup = self.app.setup or SetupConfig()
        try:
            if setup.accounts is not None:
                await self._lease(setup.accounts, setup.account_wait_seconds)
            self.state = "preparing"
            await self._install(device, setup)
            if setup.clear:
                await clear_app(device, self.app)
            for permission in setup.grant:
                await grant_permission(device, self.app, permission)
            if setup.start:
                await start_app(device, self.app)
            return await self._run_flow(device, setup.flow, "setup")
        except NoFreeAccount as error:
            return str(error)
        except BaseException:
            self.release()
            raise
        finally:
            self.state, self.paused, self.newest = "", None, None

    async def _lease(self, pool: str, wait_seconds: float) -> None:
        self.release()  # of an episode whose end nobody saw
        self.state = "waiting for an account"
        self.account = await self.pools.lease(pool, wait_seconds=wait_seconds)
        self._say("actors.account.leased", pool=pool, account=self.account.name)

    def release(self) -> None:
        """Give the account back, if there is one."""
        account, self.account = self.account, None
        if account is not None:
            self.pools.release(account)
            self._say("actors.account.released", pool=account.pool, account=account.name)

    async def _install(self, device: Device, setup: SetupConfig) -> None:
        if not self.assets.apks:
            return
        if setup.reinstall is Reinstall.MISSING and await is_installed(device, self.app):
            return
        self.state = "installing"
        await install_app(device, self.app, self.assets.apks)
        self._say("actors.app.installed", package=self.app.package, files=len(self.assets.apks))
        self.state = "preparing"

    # --- after an episode

    async def tear_down(self, device: Device, *, flow: bool) -> None:
        """Do what `[apps.X.teardown]` says; what fails in it is told, and the rest is done all the same.

        Args:
            device: The phone.
            flow: Its steps too; without them the app is only stopped, cleared and removed.

        Raises:
            DeviceLost: the phone went away.
        """
        teardown = self.app.teardown or (TeardownConfig() if self.app.setup is not None else None)
        if teardown is None:
            return
        self.state = "putting away"
        try:
            with trio.move_on_after(TEARDOWN_SECONDS) as scope:
                await self._tear_down(device, teardown, flow=flow)
            if scope.cancelled_caught:
                self._say("actors.teardown.failed", level="warning", error=f"not done in {TEARDOWN_SECONDS:g} s")
        finally:
            self.state, self.paused, self.newest = "", None, None

    async def _tear_down(self, device: Device, teardown: TeardownConfig, *, flow: bool) -> None:
        if flow:
            try:
                failed = await self._run_flow(device, teardown.flow, "teardown")
            except DeviceLost:
                raise
            except DeviceError as error:
                failed = str(error)
            if failed is not None:
                self._say("actors.teardown.failed", level="warning", error=failed)
        for wanted, change in (
            (teardown.stop, stop_app),
            (teardown.clear, clear_app),
            (teardown.uninstall, uninstall_app),
        ):
            if not wanted:
                continue
            try:
                await change(device, self.app)
            except DeviceLost:
                raise
            except DeviceError as error:
                self._say("actors.teardown.failed", level="warning", error=str(error))

    # --- in an episode

    async def restart(self, device: Device, app: AppConfig) -> None:
        """Stop the app, start it, and go the way to where an episode can begin: a game is logged out by a restart.

        The account is the one that the episode has.

        Args:
            device: The phone. Nobody else may look at it meanwhile: what is on its screen is not for records.
            app: The keeper's own.

        Raises:
            DeviceError: the phone refused, or the flow did not get through; the text says where.
        """
        assert app is self.app or app == self.app, "a keeper has one app"
        self.state = "restarting"
        try:
            await start_app(device, app)
            failed = await self._run_flow(device, (app.setup or SetupConfig()).flow, "restart")
        finally:
            self.state, self.paused, self.newest = "", None, None
        if failed is not None:
            raise DeviceError(f"the app was restarted, but {failed}", phone=device.info.phone)

    # --- flows

    def resume(self) -> None:
        """A person says: go on."""
        self._resumed = True
        self._wake.set()

    async def _run_flow(self, device: Device, steps: Sequence[FlowStep], what: str) -> str | None:
        """None when it got through, else why it did not."""
        if not steps:
            return None
        policy = FlowPolicy(steps, self.app.human, what=what)
        blind = 0
        while True:
            started = trio.current_time()
            percept = await self._look(device)
            blind = blind + 1 if percept is None else 0
            if blind >= CAPTURE_RETRIES:
                raise DeviceLost(f"{blind} captures in a row failed", phone=device.info.phone)
            if self.paused is not None and not self._resumed and self.custody.holder(started) is not None:
                await self._wait(started)
                continue
            resumed, self._resumed = self._resumed and self.paused is not None, False
            decision = policy.step(percept, trio.current_time(), resumed=resumed)
            self._show_pause(policy.paused, what)
            match decision:
                case FlowDone():
                    self._say("actors.flow.done", flow=what, steps=len(steps))
                    return None
                case FlowFailed(reason):
                    self._say("actors.flow.failed", level="warning", flow=what, reason=reason)
                    return reason
                case FlowAct():
                    error = await self._act(device, decision)
                    self._say("actors.flow.acted", flow=what, step=decision.step, error=error)
                    policy.acted(trio.current_time(), error)
                case FlowRestart():
                    self._say("actors.flow.restarted", level="warning", flow=what, step=decision.step)
                    policy.acted(trio.current_time(), await self._restart(device))
                case _:
                    await self._wait(started)

    async def _wait(self, since: float) -> None:
        with trio.move_on_at(since + self.every_seconds):
            await self._wake.wait()
        self._wake = trio.Event()

    def _show_pause(self, reason: str | None, what: str) -> None:
        if reason is not None and self.paused is None:
            NEEDS_HUMAN.labels(what).inc()
            self._say("actors.human.needed", level="warning", where=what, why=reason)
        elif reason is None and self.paused is not None:
            self._say("actors.human.resumed", where=what)
        self.paused = reason

    async def _look(self, device: Device) -> Percept | None:
        try:
            frame = await device.capture()
            self.newest = frame if self.paused is not None else None
            return await perceive_all(self.assets.perception, self.assets.slow, frame)
        except CaptureFailed as error:
            emit("actors.capture.failed", level="warning", error=str(error))
            return None

    async def _restart(self, device: Device) -> str | None:
        try:
            await start_app(device, self.app)
        except DeviceLost:
            raise
        except DeviceError as error:
            return str(error)
        return None

    async def _act(self, device: Device, decision: FlowAct) -> str | None:
        """None, or what the phone said."""
        if decision.text is not None:
            return await self._type(device, decision.text)
        assert decision.action is not None
        try:
            await device.act(decision.action)
        except DeviceLost:
            raise
        except DeviceError as error:
            return str(error)
        return None

    async def _type(self, device: Device, template: str) -> str | None:
        """As `_act`. A driver's error quotes the command that it sent, so another one without the text takes its place.

        It is raised outside of the handler: an error keeps the one that it was raised in.
        """
        failed: DeviceError | None = None
        try:
            await device.act(Text(self.secrets.reveal_text(template, self.account)))
        except DeviceError as error:
            failed = type(error)(f"typing {template!r} failed ({type(error).__name__})", phone=device.info.phone)
        if isinstance(failed, DeviceLost):
            raise failed
        if isinstance(failed, ActionRefused):
            return f"{template!r} cannot be typed: printable ASCII only, at most 500 characters, no '%s'"
        return None if failed is None else str(failed)

    def _say(self, event: str, *, level: str = "info", **fields: Any) -> None:
        emit(event, level=level, **fields)
        self.tell(event, **fields)
