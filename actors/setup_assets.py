"""The files and probes that an app's setup names: checked before anything starts."""

from collections.abc import Collection
from pathlib import Path

from actors.configuration import Problem
from actors.scenario import AppConfig
from actors.setup_config import flow_conditions


def apks_for(app: AppConfig, folder: Path) -> tuple[Path, ...]:
    """The files to install, base first."""
    return tuple(folder / apk for apk in app.setup.install) if app.setup is not None else ()


def missing_setup_files(app: AppConfig, folder: Path, at: str) -> list[Problem]:
    """One problem for each APK that is not a file with something in it."""
    found = []
    for index, path in enumerate(apks_for(app, folder)):
        try:
            size = path.stat().st_size if path.is_file() else None
        except OSError as error:
            found.append(Problem(f"{path} cannot be read: {error.strerror}", f"{at}.setup.install[{index}]"))
            continue
        if size is None:
            found.append(Problem(f"there is no file {path}", f"{at}.setup.install[{index}]"))
        elif size == 0:
            found.append(Problem(f"{path} is empty", f"{at}.setup.install[{index}]"))
    return found


def unknown_setup_probes(app: AppConfig, probes: Collection[str], at: str) -> list[Problem]:
    """One problem for each condition on a probe that the rule file does not have."""
    wanted = [(c.probe, f"{at}.needs_human[{number}].probe") for number, c in enumerate(app.needs_human)]
    if app.setup is not None:
        wanted += flow_conditions(app.setup.flow, f"{at}.setup.flow")
    if app.teardown is not None:
        wanted += flow_conditions(app.teardown.flow, f"{at}.teardown.flow")
    file = app.rules or "the app names no rule file (rules = PATH), so it"
    return [Problem(f"{file} has no probe {probe!r}", path) for probe, path in wanted if probe not in probes]
