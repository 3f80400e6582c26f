"""The files that a scenario names: rule files, their pictures, model profiles. Read once, before anything starts."""

from collections.abc import Mapping
from pathlib import Path

import attrs
import cv2
import numpy as np

from actors.configuration import Problem, ScenarioError, read_toml, structured
from actors.rulefile import RuleFile, parse_rule_file
from actors.scenario import ProbeReading, Scenario
from inference.profile import ModelProfile, ReplyCodec
from policies.frame import Pixels
from policies.perception import Perception, compile_probes

MAX_FILE_BYTES = 16 << 20  # a rule file or a cut-out picture is never this large


@attrs.frozen(eq=False)
class AppAssets:
    """What one app needs."""

    rules: RuleFile
    perception: Perception
    profile: ModelProfile


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
        try:
            rules, pictures = load_rules(folder / app.rules) if app.rules else (RuleFile(), {})
            profile = load_profile(scenario.planner_of(app).profile, folder)
            assets[name] = AppAssets(rules, compile_probes(rules.probes, pictures), profile)
        except ScenarioError as error:
            problems += [p if p.file else attrs.evolve(p, path=f"{at}: {p.path}") for p in error.problems]
            continue
        for key in ("score", "goal_reached"):
            reading = getattr(app, key)
            if isinstance(reading, ProbeReading) and reading.probe not in rules.probes:
                problems.append(Problem(f"{app.rules} has no probe {reading.probe!r}", f"{at}.{key}.probe"))
    if problems:
        raise ScenarioError(problems)
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


def load_picture(path: Path) -> Pixels:
    """A PNG or JPEG as (height, width, 3) uint8 BGR.

    Raises:
        ScenarioError: missing or not a picture.
    """
    decoded = cv2.imdecode(np.frombuffer(read_file(path), dtype=np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise ScenarioError([Problem("not a picture that OpenCV can read", "$", str(path))])
    return np.asarray(decoded, dtype=np.uint8)


def load_profile(name: str, folder: Path) -> ModelProfile:
    """A bundled profile by name, or a profile file.

    Raises:
        ScenarioError: no such profile, or a wrong file.
    """
    if not name.endswith(".toml"):
        profile = BUNDLED_PROFILES.get(name)
        if profile is None:
            known = ", ".join(sorted(BUNDLED_PROFILES))
            raise ScenarioError([Problem(f"no profile {name!r}: give a file, or one of {known}", "$.planner.profile")])
        return profile
    path = folder / name
    source = read_file(path)
    parsed, problems = structured(read_toml(source, str(path)), ModelProfile, source=source, file=str(path))
    if parsed is None:
        raise ScenarioError(problems)
    if parsed.codec is ReplyCodec.COMPACT and parsed.coordinates != "per_mille":
        message = "the compact codec has three-digit coordinates: coordinates must be per_mille"
        raise ScenarioError([Problem(message, "$.coordinates", str(path))])
    return parsed


def read_file(path: Path) -> bytes:
    """A small file.

    Raises:
        ScenarioError: missing, unreadable, a folder, or too large.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ScenarioError([Problem(f"larger than {MAX_FILE_BYTES >> 20} MiB", "$", str(path))])
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror or error}", "$", str(path))]) from error


BUNDLED_PROFILES: Mapping[str, ModelProfile] = {"compact": ModelProfile()}
