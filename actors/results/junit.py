"""`junit.xml`: one test case an episode, as CI systems read it."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

from policies.criteria import Outcome

# what XML 1.0 cannot hold at all; a phone's or a model's words may hold anything
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_for(run: dict[str, Any], episodes: Sequence[dict[str, Any]]) -> bytes:
    """The document for a run's episode rows.

    A failed episode is a failure, a quarantined one an error (infrastructure), a cancelled one skipped. A baseline's
    episodes are skipped: nobody asks them to succeed.
    """
    suite = ET.Element("testsuite", name=_clean(run["scenario"]), timestamp=_timestamp(run))
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for episode in episodes:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=_clean(f"{run['scenario']}.{episode['app']}"),
            name=_clean(f"{episode['phone']} seed {episode['seed']} {episode['episode']}"),
            time=f"{episode['seconds']:.3f}",
        )
        reason = _clean(episode["reason"])
        outcome = episode["outcome"]
        if episode["bot"] == "random":
            counts["skipped"] += 1
            ET.SubElement(case, "skipped", message=f"baseline at random: {outcome}: {reason}")
        elif outcome == Outcome.FAILED.value:
            counts["failures"] += 1
            ET.SubElement(case, "failure", message=reason, type="criteria")
        elif outcome == Outcome.QUARANTINED.value:
            counts["errors"] += 1
            ET.SubElement(case, "error", message=reason, type="quarantined")
        elif outcome == Outcome.CANCELLED.value:
            counts["skipped"] += 1
            ET.SubElement(case, "skipped", message=reason)
        if episode["faults"]:
            ET.SubElement(case, "system-out").text = _clean("\n\n".join(map(_fault_text, episode["faults"])))
        properties = ET.SubElement(case, "properties")
        for name in ("score", "steps", "stall_fraction", "no_effect"):
            if episode[name] is not None:  # a bot without a score reading has none
                ET.SubElement(properties, "property", name=name, value=str(episode[name]))
    suite.set("tests", str(len(episodes)))
    suite.set("time", f"{sum(e['seconds'] for e in episodes):.3f}")
    for name, count in counts.items():
        suite.set(name, str(count))
    ET.indent(suite)
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def _fault_text(fault: Mapping[str, str]) -> str:
    return f"{fault['kind']} {fault['process']}: {fault['cause']}\n{fault['excerpt']}".strip()


def _timestamp(run: dict[str, Any]) -> str:
    return datetime.fromtimestamp(run["started_at"], UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _clean(text: object) -> str:
    return _ILLEGAL.sub("\ufffd", str(text))
