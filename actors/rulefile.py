"""Rule files: probes and reflex rules as people write them, one TOML file an app."""

from collections.abc import Mapping

import attrs

from actors.configuration import Problem, ScenarioError, line_of, read_toml, register_tagged_union, structured
from policies.detector import detector_problems
from policies.ocr import ocr_problems
from policies.perception import picture_names
from policies.probes import BarProbe, ColorProbe, DetectorProbe, DigitsProbe, OcrProbe, Probe, TemplateProbe
from policies.reflex import Rule

PROBE_KINDS = {
    "template": TemplateProbe,
    "color": ColorProbe,
    "bar": BarProbe,
    "digits": DigitsProbe,
    "ocr": OcrProbe,
    "detector": DetectorProbe,
}
register_tagged_union(Probe, PROBE_KINDS)


@attrs.frozen
class RuleFile:
    """What System 1 looks at, and what it does."""

    probes: Mapping[str, Probe] = attrs.field(factory=dict)
    rules: tuple[Rule, ...] = ()
    pictures: str = "."
    """Folder of the PNGs that probes name (without `.png`), beside the rule file."""

    def picture_names(self) -> tuple[str, ...]:
        """Every picture that some probe needs, sorted."""
        return tuple(sorted({name for probe in self.probes.values() for name in picture_names(probe)}))


def kind_of(probe: Probe) -> str:
    """What a rule file calls this kind of probe."""
    return next(kind for kind, cls in PROBE_KINDS.items() if isinstance(probe, cls))


def parse_rule_file(source: bytes, file: str) -> RuleFile:
    """Read a rule file.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.
    """
    parsed, problems = structured(read_toml(source, file), RuleFile, source=source, file=file)
    if parsed is None:
        raise ScenarioError(problems)
    lines = source.decode("utf-8-sig").splitlines()
    problems = [Problem(message, path, file, line_of(lines, path)) for message, path in cross_problems(parsed)]
    if problems:
        raise ScenarioError(problems)
    return parsed


def cross_problems(rules: RuleFile) -> list[tuple[str, str]]:
    """(message, path) of what no single key shows: unknown probes, doubled names, actions that are none or two."""
    found: list[tuple[str, str]] = []
    for name, probe in rules.probes.items():
        if isinstance(probe, OcrProbe):
            found += [(message, f"$.probes.{name}.{key}") for key, message in ocr_problems(probe)]
        elif isinstance(probe, DetectorProbe):
            found += [(message, f"$.probes.{name}.{key}") for key, message in detector_problems(probe)]
    names: set[str] = set()
    for index, rule in enumerate(rules.rules):
        at = f"$.rules[{index}]"
        if rule.name in names:
            found.append((f"rule {rule.name!r} stands twice", f"{at}.name"))
        names.add(rule.name)
        if not rule.when:
            found.append((f"rule {rule.name!r} needs at least one condition", f"{at}.when"))
        wanted = [(c.probe, f"{at}.when[{n}].probe") for n, c in enumerate(rule.when)]
        if rule.do.tap_match is not None:
            wanted.append((rule.do.tap_match, f"{at}.do.tap_match"))
        found += [(f"there is no probe {probe!r}", path) for probe, path in wanted if probe not in rules.probes]
        found += [(problem, f"{at}.do") for problem in rule.do.problems()]
    return found
