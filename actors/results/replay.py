"""Runs the policy again on a record, and proves that it decides the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from actors.assets import load_picture
from actors.configuration import ScenarioError
from actors.results.record import (
    Header,
    RecordedStep,
    RecordUnreadable,
    decode_header,
    decode_steps,
    encode_output,
    encode_percept,
)
from policies.baseline import RandomPolicy
from policies.episode import EpisodePolicy
from policies.frame import Frame, Pixels
from policies.geometry import Geometry
from policies.perception import Percept, compile_probes, perceive, slow_readings, with_slow
from policies.step import StepInput
from policies.tally import Tally
from runtime.ids import EpisodeId


@attrs.frozen
class Replay:
    """What came of replaying one episode."""

    episode: str
    steps: int
    differences: tuple[str, ...]
    """The first few; empty when every decision was the same."""
    perceived: int
    """Frames on which perception was run again."""
    tally: Tally
    score: float | None
    captures: tuple[float, ...]
    """Latencies in seconds, as far as the record holds them: one a decided frame ..."""
    plans: tuple[float, ...]
    """... a plan ..."""
    acts: tuple[float, ...]
    """... and a command."""
    engines: tuple[str, ...]
    models: tuple[str, ...]
    ended: bool
    """The record holds the episode's end."""


MAX_DIFFERENCES = 5


def episode_folders(run: Path, which: str | None = None) -> list[Path]:
    """Every episode folder of a run that has a record, by name; or those of one episode, or of one phone.

    Args:
        run: The run folder.
        which: An episode's id, or a phone's.

    Raises:
        RecordUnreadable: the folder is no run, or has no such episode or phone; the text lists those there are.
    """
    found = sorted(path.parent for path in run.glob("episodes/*/steps.jsonl"))
    if which is None or any(path.name == which for path in found):
        chosen = [path for path in found if which in (None, path.name)]
    else:
        phones = {path: _phone_of(path) for path in found}
        chosen = [path for path, phone in phones.items() if phone == which]
        if found and not chosen:
            known = ", ".join(f"{path.name} (phone {phone or 'unknown'})" for path, phone in phones.items())
            raise RecordUnreadable(f"{run}: it has no episode and no phone {which!r}; there are {known}")
    if not chosen:
        for path in episodes_without_record(run):
            raise RecordUnreadable(f"{path}: it has no steps.jsonl, so it cannot be replayed")
        raise RecordUnreadable(f"{run}: no episodes/*/steps.jsonl in it: is it a run folder?")
    return chosen


def episodes_without_record(run: Path) -> list[Path]:
    """The episode folders that hold no `steps.jsonl`: nothing of them can be replayed."""
    return sorted(path for path in run.glob("episodes/*/") if not (path / "steps.jsonl").is_file())


def _phone_of(episode: Path) -> str | None:
    try:
        return read_header(episode).phone
    except RecordUnreadable:
        return None  # its own replay says what is wrong; here it is only not the one that was asked for


def read_header(episode: Path) -> Header:
    """The header of an episode's record.

    Raises:
        RecordUnreadable: missing, empty or of another version.
    """
    try:
        with (episode / "steps.jsonl").open(encoding="utf-8") as file:
            return decode_header(file.readline())
    except (OSError, UnicodeDecodeError) as error:
        raise RecordUnreadable(f"{episode}: {error}") from error
    except RecordUnreadable as error:
        raise RecordUnreadable(f"{episode}/steps.jsonl: {error}") from error


def replay_episode(episode: Path, *, pixels: bool = False) -> Replay:
    """Decide every recorded step again.

    Args:
        episode: Its folder.
        pixels: Run perception again too, on the recorded PNGs (`record.pixels = true`).

    Raises:
        RecordUnreadable: the record is broken, or holds no pixels where they were asked for.
    """
    header = read_header(episode)
    make = RandomPolicy if header.policy == "random" else EpisodePolicy
    policy = make(header.settings, EpisodeId(header.episode))
    perception = None
    if pixels:
        try:
            perception = compile_probes(header.probes, _pictures_of(episode.parent.parent / "pictures" / header.app))
        except (ValueError, ScenarioError) as error:
            raise RecordUnreadable(f"{episode}: {error}") from error
    steps, perceived, ended = 0, 0, False
    differences: list[str] = []
    captures: list[float] = []
    plans: list[float] = []
    acts: list[float] = []
    engines: set[str] = set()
    models: set[str] = set()
    asked: dict[str, float] = {}
    for step in recorded_steps(episode):
        given = step.given
        if perception is not None and given.percept is not None:
            seen = perceive(perception, _frame_for(episode, step.png, given.percept))
            seen = with_slow(seen, slow_readings(perception, given.percept))
            perceived += 1
            recorded, again = encode_percept(given.percept), encode_percept(seen)
            if recorded != again:
                _note(differences, f"step {given.step}: {_first_difference(recorded, again, 'percept')}")
        output = policy.step(given)
        encoded = encode_output(output)
        if encoded != step.output:
            _note(differences, f"step {given.step}: {_first_difference(step.output, encoded)}")
        steps += 1
        ended = output.end is not None
        if given.percept is not None:
            captures.append(given.percept.received_at - given.percept.requested_at)
        acts += [result.done_at - result.sent_at for result in given.results]
        _time_plan(given, asked, plans)
        if output.request is not None:
            asked[output.request.request_id] = given.now
        engine, model = getattr(given.plan, "engine", ""), getattr(given.plan, "model", "")
        engines |= {engine} - {""}
        models |= {model} - {""}
    return Replay(
        episode=header.episode,
        steps=steps,
        differences=tuple(differences),
        perceived=perceived,
        tally=policy.tally,
        score=policy.score,
        captures=tuple(captures),
        plans=tuple(plans),
        acts=tuple(acts),
        engines=tuple(sorted(engines)),
        models=tuple(sorted(models)),
        ended=ended,
    )


def _pictures_of(folder: Path) -> dict[str, Pixels]:
    found = sorted(folder.rglob("*.png"))
    return {str(path.relative_to(folder).with_suffix("")): load_picture(path) for path in found}


def recorded_steps(episode: Path) -> Iterator[RecordedStep]:
    """The steps of an episode's record, without its header.

    Raises:
        RecordUnreadable: it cannot be read, or is broken in its middle.
    """
    path = episode / "steps.jsonl"
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            file.readline()
            yield from decode_steps(iter(file))
    except RecordUnreadable as error:
        raise RecordUnreadable(f"{path}: {error}") from error
    except OSError as error:
        raise RecordUnreadable(f"{path}: {error}") from error


def _frame_for(episode: Path, png: str | None, percept: Percept) -> Frame:
    if png is None:
        raise RecordUnreadable(f"{episode}: frame {percept.seq} was not kept: record with record.pixels = true")
    try:
        pixels = load_picture(episode.parent.parent / "frames" / f"{png}.png")
    except ScenarioError as error:
        raise RecordUnreadable(f"{episode}: {error}") from error
    geometry = Geometry(percept.width, percept.height, percept.rotation)
    return Frame(pixels, percept.seq, percept.requested_at, percept.received_at, geometry, percept.epoch)


def _time_plan(given: StepInput, asked: dict[str, float], plans: list[float]) -> None:
    if given.plan is not None and given.plan.request_id in asked:
        plans.append(given.now - asked.pop(given.plan.request_id))


def _note(differences: list[str], text: str) -> None:
    if len(differences) < MAX_DIFFERENCES:
        differences.append(text)


def _first_difference(recorded: Any, replayed: Any, path: str = "output") -> str:
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for key in sorted(set(recorded) | set(replayed)):
            if recorded.get(key) != replayed.get(key):
                return _first_difference(recorded.get(key), replayed.get(key), f"{path}.{key}")
    if isinstance(recorded, list) and isinstance(replayed, list) and len(recorded) == len(replayed):
        for index, (old, new) in enumerate(zip(recorded, replayed, strict=True)):
            if old != new:
                return _first_difference(old, new, f"{path}[{index}]")
    return f"{path} was {str(recorded)[:80]}, is now {str(replayed)[:80]}"
