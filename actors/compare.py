"""Plays one scenario two ways on the same phones, by turns: models, profiles, engines or settings compared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.assets import AppAssets, load_assets, read_file
from actors.bench.engine import EngineTarget, model_at
from actors.bench.engines import BenchUnavailable
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.configuration import Problem, ScenarioError
from actors.fleet import Fleet
from actors.results.comparison import Played, played_rows, summarise, verdict_for
from actors.results.summary import EpisodeSummary
from actors.run import RunResult, run_scenario
from actors.scenario import PhoneGroup, Scenario, SimulatedPhones, parse_scenario
from inference.config import EngineConfig, check_engine
from inference.profile import ModelProfile
from runtime.ids import EngineId

NAMES = ("A", "B")
SEEDS_A_ROUND = 1000  # a scenario has fewer phones of a group, so no two rounds share a seed

Run = Callable[[Scenario, dict[str, AppAssets]], RunResult]


class CompareError(Exception):
    """The comparison cannot go on: the text says which run failed, and why."""


@attrs.frozen
class Side:
    """One way to play: the scenario with these changes."""

    text: str
    """As it was given."""
    scenario: Scenario
    assets: dict[str, AppAssets]


def side_for(text: str, file: Path) -> Side:
    """The scenario as a side has it.

    Args:
        text: the id of one of the scenario's engines; or a URL, `http://host:port` or `http://host:port#MODEL`, of an
            engine in place of them all, which is asked for its model if none is named; or values as for `--set`, joined
            by commas, as `planner.profile=qwen3-vl`.
        file: of the scenario.

    Raises:
        ScenarioError: the scenario, a file that it names, or the side is wrong.
        BenchUnavailable: the engine at a URL does not answer, or does not say which model it serves.
    """
    source = read_file(file)
    if text.startswith(("http://", "https://")):
        scenario = parse_scenario(source, str(file))
        url, _, model = text.partition("#")
        engine = EngineConfig(EngineId("compared"), url=url, model=model)
        problems = [Problem(problem, f"side {text!r}") for problem in check_engine(engine)]
        if problems:
            raise ScenarioError(problems)
        if not model:
            served = trio.run(model_at, EngineTarget(url, ModelProfile(), "", name="compared"))
            if served is None:
                raise BenchUnavailable(f"{url} does not say which model it serves: name it, {url}#MODEL")
            engine = attrs.evolve(engine, model=served)
        scenario = attrs.evolve(scenario, engines=(engine,))
    elif "=" in text:
        scenario = parse_scenario(source, str(file), _overrides(text))
    else:
        scenario = parse_scenario(source, str(file))
        chosen = tuple(one for one in scenario.engines if one.id == text)
        if not chosen:
            known = ", ".join(one.id for one in scenario.engines) or "none"
            message = f"side {text!r} is no engine of the scenario ({known}), no URL, and no KEY=VALUE"
            raise ScenarioError([Problem(message, "$.engines", str(file))])
        scenario = attrs.evolve(scenario, engines=chosen)
    return Side(text, scenario, dict(load_assets(scenario, file.parent)))


def _overrides(text: str) -> dict[str, str]:
    """`a=1,b.c=2`; a comma inside a value belongs to it if no `KEY=` follows."""
    found: dict[str, str] = {}
    last = ""
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals and key.strip():
            last = key.strip()
            found[last] = value
        elif last:
            found[last] += f",{part}"
        else:
            raise ScenarioError([Problem(f"{part!r} is no KEY=VALUE", f"side {text!r}")])
    return found


def scenario_of_round(scenario: Scenario, number: int) -> Scenario:
    """The scenario with the seeds of a round: both sides of it have the same, and no two rounds do."""

    def moved(group: PhoneGroup) -> PhoneGroup:
        if isinstance(group, SimulatedPhones) and group.seed is not None:
            return attrs.evolve(group, seed=group.seed + number * SEEDS_A_ROUND)
        return group

    phones = tuple(moved(group) for group in scenario.phones)
    return attrs.evolve(scenario, seed=scenario.seed + number * SEEDS_A_ROUND, phones=phones)


def played_of(number: int, summaries: tuple[EpisodeSummary, ...]) -> list[Played]:
    """What counts of a run: episodes of bots that ask a model."""
    return played_rows(number, map(attrs.asdict, summaries))


def compare(
    sides: tuple[Side, Side], rounds: int, out: Path, command: str, source: bytes, *, tell: Tell = tell_nobody
) -> BenchResult:
    """Play every round both ways; the side that begins alternates. A signal ends it after the present run.

    Args:
        sides: A and B.
        rounds: each with seeds of its own, equal for both.
        out: run folders are made in here.
        command: that repeats it.
        source: the scenario file, for the run folders.
        tell: of progress.

    Raises:
        CompareError: a run broke down.
        FleetError: nothing could be played.
        OSError: a run folder cannot be made.
    """
    played: tuple[list[Played], list[Played]] = ([], [])
    folders: list[dict[str, Any]] = []
    stopped = False
    for number in range(rounds):
        for turn in range(2):
            which = (number + turn) % 2
            tell(f"round {number + 1}: {NAMES[which]}", (2 * number + turn) / (2 * rounds))
            side = sides[which]
            result = trio.run(_run, scenario_of_round(side.scenario, number), side.assets, source, out)
            if result.failure is not None:
                raise CompareError(f"round {number + 1} of {NAMES[which]} broke down: {result.failure}")
            played[which].extend(played_of(number, result.summaries))
            folders.append({"round": number, "side": NAMES[which], "folder": str(result.folder)})
            stopped = stopped or result.stopped_by is not None
            if stopped:
                break
        if stopped:
            break
    summary: dict[str, Any] = summarise(*played)
    summary["A is"], summary["B is"] = sides[0].text, sides[1].text
    summary["scenario"] = sides[0].scenario.name
    summary["verdict"] = verdict_for(*played)
    rows = [{"side": name, **attrs.asdict(one)} for name, side in zip(NAMES, played, strict=True) for one in side]
    notes = (
        "value [95 % interval]: Wilson's for success, bootstrap for means; * a difference that is more than chance",
        "B - A: paired by round, phone and episode, with the same seeds; success: Newcombe's interval",
        "runs needed: episodes of each side that would tell differences as large as these from chance in 4 of 5 tries",
        *(("stopped early",) if stopped else ()),
    )
    return BenchResult("compare", command, summary, [*folders, *rows], notes)


async def _run(scenario: Scenario, assets: dict[str, AppAssets], source: bytes, out: Path) -> RunResult:
    return await run_scenario(scenario, assets, source=source, out=out, view=_nothing)


async def _nothing(fleet: Fleet) -> None:
    del fleet
    await trio.sleep_forever()
