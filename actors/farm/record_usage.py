"""What the episodes of a run folder used of engines and phones, by their records."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from actors.farm.costs import Usage, busy_seconds
from actors.farm.filmstrip import read_summary

_COUNTS = ("prompt_tokens", "cached_tokens", "output_tokens")
_MARK = '"plan":{'  # lines without a reply need not be parsed


def usage_of(run: Path) -> dict[str, Usage]:
    """Episode → what it used.

    An engine's time counts once, however many requests of the run it worked on at that time: a request lasts for its
    prefill and decode seconds, up to the step that took the reply. Episodes share that time by the length of their
    requests.
    """
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)  # {engine: [(begin, end)]}
    worked: dict[tuple[str, str], float] = defaultdict(float)  # {(engine, episode): seconds of requests}
    found: dict[str, Usage] = {}
    for folder in sorted((run / "episodes").glob("*/")):
        usage = Usage(phone_seconds=_seconds_of(folder))
        for now, plan in _plans_in(folder / "steps.jsonl"):
            prompt, cached, output = (int(_number(plan.get(name))) for name in _COUNTS)
            usage += Usage(1, prompt, cached, output)
            engine = str(plan.get("engine", ""))
            seconds = _number(plan.get("prefill_seconds")) + _number(plan.get("decode_seconds"))
            spans[engine].append((now - seconds, now))
            worked[engine, folder.name] += seconds
        found[folder.name] = usage
    for engine, intervals in spans.items():
        busy = busy_seconds(intervals)
        mine = {episode: seconds for (one, episode), seconds in worked.items() if one == engine}
        total = sum(mine.values())
        for episode, seconds in mine.items():
            share = busy * seconds / total if total else 0.0
            found[episode] = attrs.evolve(found[episode], gpu_seconds=found[episode].gpu_seconds + share)
    return found


def _plans_in(path: Path) -> Iterator[tuple[float, dict[str, Any]]]:
    """(the run's clock, reply) of every plan that came."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if _MARK not in line:
                    continue
                try:
                    given = json.loads(line)["in"]
                    plan = given.get("plan")
                except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
                    continue  # the line that a kill cut short, or no step
                if isinstance(plan, dict) and plan.get("type") == "PlanReply":
                    yield _number(given.get("now")), plan
    except FileNotFoundError:
        return


def _seconds_of(episode: Path) -> float:
    return _number(read_summary(episode).get("seconds"))


def _number(value: object) -> float:
    """0 for what is no number, or below."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(0.0, float(value))
