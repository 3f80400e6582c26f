"""Apps on a phone, by its own shell: start, stop, forget, grant, remove. Every refusal is a `DeviceError`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from actors.devices.base import Device, DeviceError
from actors.scenario import AppConfig

START_SECONDS = 20.0  # a cold start of a large game on a slow phone: `am start -n` returns when it is under way
CHANGE_SECONDS = 30.0  # forgetting or removing a game with gigabytes of downloads


async def start_app(device: Device, app: AppConfig) -> None:
    """Stop an app and start it afresh.

    Raises:
        DeviceError: the phone says that it could not be started.
    """
    await stop_app(device, app)
    if app.activity is not None:
        command = f"am start -n {shlex.quote(f'{app.package}/{app.activity}')}"
    else:
        command = f"monkey -p {app.package} -c android.intent.category.LAUNCHER 1"
    result = await device.shell(command, timeout_seconds=START_SECONDS)
    output = (result.stdout + result.stderr).decode("utf-8", "replace")
    # am and monkey both exit with 0 on some Android versions when they fail, so the text is read too
    if result.exit_code not in (0, None) or "Error" in output or "No activities found" in output:
        raise DeviceError(f"{command!r} failed: {output.strip()[:200]}", phone=device.info.phone)


async def stop_app(device: Device, app: AppConfig) -> None:
    """Stop an app; one that does not run, or is not there, is stopped already."""
    await device.shell(f"am force-stop {app.package}")


async def is_installed(device: Device, app: AppConfig) -> bool:
    """The package is there."""
    result = await device.shell(f"pm path {app.package}")
    return result.stdout.startswith(b"package:")


async def install_app(device: Device, app: AppConfig, apks: Sequence[Path]) -> None:
    """Install a base APK and its splits.

    Raises:
        DeviceError: the phone refused, or they hold another package than the scenario says.
    """
    try:
        await device.install(apks)
    except OSError as error:
        raise DeviceError(f"an APK cannot be read: {error}", phone=device.info.phone) from error
    if not await is_installed(device, app):
        names = ", ".join(apk.name for apk in apks)
        raise DeviceError(f"{names} installed something else than {app.package}", phone=device.info.phone)


async def clear_app(device: Device, app: AppConfig) -> None:
    """Forget all of the app's data.

    Raises:
        DeviceError: the phone refused.
    """
    await _change(device, f"pm clear {app.package}", needs_success=True)


async def grant_permission(device: Device, app: AppConfig, permission: str) -> None:
    """Give the app a permission.

    Raises:
        DeviceError: the phone refused.
    """
    await _change(device, f"pm grant {app.package} {permission}", needs_success=False)


async def uninstall_app(device: Device, app: AppConfig) -> None:
    """Remove the app.

    Raises:
        DeviceError: the phone refused.
    """
    await _change(device, f"pm uninstall {app.package}", needs_success=True)


async def _change(device: Device, command: str, *, needs_success: bool) -> None:
    result = await device.shell(command, timeout_seconds=CHANGE_SECONDS)
    output = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
    # `pm grant` prints nothing when it worked; the others print Success, also where there is no exit code
    failed = result.exit_code not in (0, None) or "Exception" in output or (needs_success and "Success" not in output)
    if failed:
        raise DeviceError(f"{command!r} failed: {output[:200] or 'no answer'}", phone=device.info.phone)
