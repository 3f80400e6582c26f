"""The files that a scenario names: rule files, their pictures, model profiles. Read once, before anything starts."""

import difflib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import attrs
import cv2
import numpy as np

from actors.configuration import Problem, ScenarioError, line_of, read_toml, structured
from actors.profiles.checks import profile_problems
from actors.rulefile import RuleFile, parse_rule_file
from actors.scenario import AdbPhones, ProbeReading, ReplayPhones, Scenario
from actors.setup_assets import apks_for, missing_setup_files, unknown_setup_probes
from actors.slow_probes import SlowReader, slow_readers_for
from inference.profile import ModelProfile
from policies.frame import Pixels
from policies.perception import Perception, compile_probes

BUNDLED_PROFILES = ("compact", "qwen3-vl", "qwen2.5-vl", "ui-tars-1.5", "internvl3.5", "json-example")
MAX_FILE_BYTES = 16 << 20  # a rule file or a cut-out picture is never this large


@attrs.frozen(eq=False)
class AppAssets:
    """What one app needs."""

    rules: RuleFile
    perception: Perception
    profile: ModelProfile
    apks: tuple[Path, ...] = ()
    """What its setup installs, base first."""
    slow: Mapping[str, SlowReader] = attrs.field(factory=dict)
    """Readers of the probes that are read beside the steps, by name."""
    folder: Path = Path()
    """The scenario file's own: other paths that a scenario names are relative to it."""


def load_assets(scenario: Scenario, folder: Path) -> Mapping[str, AppAssets]:
    """Read what a scenario names.

    Args:
        scenario: It names files relative to `folder`.
        folder: The scenario file's own.

    Returns:
        By app name.

    Raises:
        ScenarioError: with every missing, unreadable or wrong file.
    """
    problems: list[Problem] = []
    assets: dict[str, AppAssets] = {}
    for name, app in scenario.apps.items():
        at = f"$.apps.{name}"
        problems += missing_setup_files(app, folder, at)
        try:
            rules, pictures = load_rules(folder / app.rules) if app.rules else (RuleFile(), {})
            profile = load_profile(scenario.planner_of(app).profile, folder)
            slow = load_slow(rules, folder / app.rules) if app.rules else {}
            perception = compile_probes(rules.probes, pictures)
            assets[name] = AppAssets(rules, perception, profile, apks_for(app, folder), slow, folder)
        except ScenarioError as error:
            problems += [p if p.file else attrs.evolve(p, path=f"{at}: {p.path}") for p in error.problems]
            continue
        for key in ("score", "goal_reached"):
            reading = getattr(app, key)
            if isinstance(reading, ProbeReading) and reading.probe not in rules.probes:
                problems.append(Problem(f"{app.rules} has no probe {reading.probe!r}", f"{at}.{key}.probe"))
        problems += unknown_setup_probes(app, rules.probes, at)
    for index, group in enumerate(scenario.phones):
        server = group.scrcpy_server if isinstance(group, AdbPhones) else None
        if server is not None and not (folder / server).is_file():
            problems.append(Problem(f"there is no file {folder / server}", f"$.phones[{index}].scrcpy_server"))
        if isinstance(group, ReplayPhones) and not (folder / group.source).exists():
            problems.append(Problem(f"there is nothing at {folder / group.source}", f"$.phones[{index}].source"))
    if problems:
        raise ScenarioError(list(dict.fromkeys(problems)))  # apps may share a profile
    return assets


def load_rules(path: Path) -> tuple[RuleFile, dict[str, Pixels]]:
    """A rule file and its pictures by name.

    Raises:
        ScenarioError: with every mistake.
    """
    rules = parse_rule_file(read_file(path), str(path))
    pictures: dict[str, Pixels] = {}
    problems: list[Problem] = []
    for name in rules.picture_names():
        picture_path = path.parent / rules.pictures / f"{name}.png"
        try:
            pictures[name] = load_picture(picture_path)
        except ScenarioError as error:
            problems += error.problems
    if problems:
        raise ScenarioError(problems)
    return rules, pictures


def load_slow(rules: RuleFile, path: Path) -> dict[str, SlowReader]:
    """Readers of a rule file's slow probes: their networks lie where its pictures lie.

    Raises:
        ScenarioError: with a line for each network that cannot be used, and one where the extra `ocr` is missing.
    """
    return slow_readers_for(rules.probes, path.parent / rules.pictures, str(path))


def load_picture(path: Path) -> Pixels:
    """A PNG or JPEG as (height, width, 3) uint8 BGR.

    Raises:
        ScenarioError: missing or not a picture.
    """
    data = np.frombuffer(read_file(path), dtype=np.uint8)
    if not data.size:
        raise ScenarioError([Problem("an empty file, not a picture", "$", str(path))])
    try:
        decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    except cv2.error as error:  # a header that claims an impossible size, for one
        raise ScenarioError([Problem(f"not a picture that OpenCV can read: {error.err}", "$", str(path))]) from error
    if decoded is None:
        raise ScenarioError([Problem("not a picture that OpenCV can read", "$", str(path))])
    return np.asarray(decoded, dtype=np.uint8)


def load_profile(name: str, folder: Path) -> ModelProfile:
    """A bundled profile by name, or a profile file (`*.toml`) beside `folder`.

    Raises:
        ScenarioError: no such profile, or a wrong file, with every mistake.
    """
    if name.endswith(".toml"):
        path = folder / name
        return parse_profile(read_file(path), str(path))
    if name not in BUNDLED_PROFILES:
        near = difflib.get_close_matches(name, BUNDLED_PROFILES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        known = ", ".join(BUNDLED_PROFILES)
        message = f"no profile {name!r}: {hint}Give a file that ends in .toml, or one of {known}"
        raise ScenarioError([Problem(message, "$.planner.profile")])
    return parse_profile(bundled_profile(name), f"{name}.toml")


def bundled_profile(name: str) -> bytes:
    """The file of a bundled profile, one of `BUNDLED_PROFILES`."""
    return files("actors.profiles").joinpath(f"{name}.toml").read_bytes()


def parse_profile(source: bytes, file: str) -> ModelProfile:
    """Read a profile file.

    Raises:
        ScenarioError: with every mistake.
    """
    parsed, problems = structured(read_toml(source, file), ModelProfile, source=source, file=file)
    if parsed is not None:
        lines = source.decode("utf-8-sig").splitlines()
        problems += [Problem(message, path, file, line_of(lines, path)) for message, path in profile_problems(parsed)]
    if parsed is None or problems:
        raise ScenarioError(problems)
    return parsed


def read_file(path: Path) -> bytes:
    """A small file.

    Raises:
        ScenarioError: missing, unreadable, a folder, too large, or a name that no file can have.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ScenarioError([Problem(f"larger than {MAX_FILE_BYTES >> 20} MiB", "$", str(path))])
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror or error}", "$", str(path))]) from error
    except ValueError as error:  # a NUL or a lone surrogate in its name
        raise ScenarioError([Problem(f"no path that can be: {error}", "$", repr(str(path)))]) from error
