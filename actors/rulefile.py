"""Rule files: probes and reflex rules as people write them, one TOML file an app."""

from collections.abc import Mapping

import attrs

from actors.configuration import Problem, ScenarioError, read_toml, register_tagged_union, structured
from policies.perception import BarProbe, ColorProbe, DigitsProbe, Probe, TemplateProbe
from policies.reflex import Rule

register_tagged_union(Probe, {"template": TemplateProbe, "color": ColorProbe, "bar": BarProbe, "digits": DigitsProbe})


@attrs.frozen
class RuleFile:
    """What System 1 looks at, and what it does."""

    probes: Mapping[str, Probe] = attrs.field(factory=dict)
    rules: tuple[Rule, ...] = ()
    pictures: str = "."
    """Folder of the PNGs that probes name (without `.png`), beside the rule file."""

    def picture_names(self) -> tuple[str, ...]:
        """Every picture that some probe needs, sorted."""
        names: set[str] = set()
        for probe in self.probes.values():
            if isinstance(probe, TemplateProbe):
                names.add(probe.template)
            elif isinstance(probe, DigitsProbe):
                names.update(f"{probe.digits}/{digit}" for digit in range(10))
        return tuple(sorted(names))


def parse_rule_file(source: bytes, file: str) -> RuleFile:
    """Read a rule file.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.
    """
    parsed, problems = structured(read_toml(source, file), RuleFile, source=source, file=file)
    if parsed is None:
        raise ScenarioError(problems)
    problems = [Problem(message, path, file) for message, path in cross_problems(parsed)]
    if problems:
        raise ScenarioError(problems)
    return parsed


def cross_problems(rules: RuleFile) -> list[tuple[str, str]]:
    """(message, path) of what no single key shows: unknown probes, doubled names, actions that are none or two."""
    found: list[tuple[str, str]] = []
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
