"""Frames to look at, wherever they are: pictures, folders of pictures, run folders."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from actors.assets import load_picture
from actors.configuration import Problem, ScenarioError
from actors.results.checked import is_number
from actors.results.json_lines import read_lines
from policies.frame import Frame
from policies.geometry import Geometry

SUFFIXES = (".png", ".jpg", ".jpeg")
_ORDER = ("png", "prompt", "display")
"""Copies of one frame, best first: lossless, reduced for a model, reduced for the filmstrip."""


@attrs.frozen
class StoredFrame:
    """A picture on disk, and what is known of it."""

    label: str
    """What to call it: the file's name, or episode and number."""
    path: Path
    copy: str = "png"
    """`png`, or in a run also `prompt` or `display`: a reduced JPEG, on which templates score lower."""
    episode: str = ""
    """Empty for a picture that is of no run."""
    seq: int = 0
    at: float | None = None
    """When it was asked for, on the run's clock."""
    geometry: Geometry | None = None
    """The screen's true size, where the run knows it."""
    epoch: int = 0
    app: str = ""
    """Of the episode; empty where that is not known."""

    def load(self) -> Frame:
        """Its pixels.

        Raises:
            ScenarioError: missing or not a picture.
        """
        pixels = load_picture(self.path)
        geometry = self.geometry or Geometry(int(pixels.shape[1]), int(pixels.shape[0]))
        at = self.at or 0.0
        return Frame(pixels, self.seq, at, at, geometry, self.epoch)


def frames_in(target: Path) -> list[StoredFrame]:
    """All frames of a picture, a folder of pictures, a run or one of its episodes; the best copy of each.

    Raises:
        ScenarioError: there is no such file or folder, or no frame in it.
    """
    if target.is_file():
        if target.suffix.lower() not in SUFFIXES:
            raise _nothing(target, f"not a picture: give one of {', '.join(SUFFIXES)}, a run or a folder")
        return [StoredFrame(target.name, target, copy="png" if target.suffix.lower() == ".png" else "jpeg")]
    if not target.is_dir():
        raise _nothing(target, "no such file or folder")
    if (target / "steps.jsonl").is_file():
        found = list(_episode_frames(target, _prompts(target.parent.parent)))
    elif (target / "run.json").is_file() or (target / "episodes").is_dir():
        prompts = _prompts(target)
        found = [
            frame
            for episode in sorted((target / "episodes").glob("*/steps.jsonl"))
            for frame in _episode_frames(episode.parent, prompts)
        ]
    else:
        pictures = sorted(path for path in target.iterdir() if path.suffix.lower() in SUFFIXES)
        found = [StoredFrame(path.name, path) for path in pictures]
    if not found:
        raise _nothing(target, "no frames in it: a run keeps every frame with record.pixels = true")
    return found


def _nothing(target: Path, message: str) -> ScenarioError:
    return ScenarioError([Problem(message, "$", str(target))])


def _episode_frames(folder: Path, prompts: dict[tuple[str, int], str]) -> Iterator[StoredFrame]:
    """By number, the best copy of each frame that is still there."""
    files, episode = folder.parent.parent / "frames", folder.name
    percepts: dict[int, dict[str, Any]] = {}
    copies: dict[int, dict[str, Path]] = {}
    app = ""
    for line in read_lines(folder / "steps.jsonl"):
        if isinstance(line.get("app"), str):
            app = line["app"]
        given = line.get("in")
        percept = given.get("percept") if isinstance(given, dict) else None
        if not isinstance(percept, dict) or not _is_placed(percept):
            continue
        percepts[percept["seq"]] = percept
        if isinstance(line.get("png"), str):
            copies.setdefault(percept["seq"], {})["png"] = files / f"{line['png']}.png"
    for (of, seq), digest in prompts.items():
        if of == episode:
            copies.setdefault(seq, {})["prompt"] = files / f"{digest}.jpg"
    for line in read_lines(folder / "display.jsonl"):
        if isinstance(line.get("seq"), int) and isinstance(line.get("file"), str):
            copies.setdefault(line["seq"], {})["display"] = files / line["file"]
    for seq, found in sorted(copies.items()):
        copy = next((kind for kind in _ORDER if kind in found and found[kind].is_file()), None)
        if copy is None:
            continue
        percept = percepts.get(seq, {})
        yield StoredFrame(
            label=f"{episode} {seq}",
            path=found[copy],
            copy=copy,
            episode=episode,
            seq=seq,
            at=percept.get("requested_at"),
            geometry=Geometry(percept["width"], percept["height"], percept["rotation"]) if percept else None,
            epoch=percept.get("epoch", 0),
            app=app,
        )


def _is_placed(value: dict[str, Any]) -> bool:
    """A frame's place and time can be taken of it; a damaged line is left out."""
    return (
        all(type(value.get(key)) is int and value[key] >= 1 for key in ("width", "height"))
        and type(value.get("seq")) is int
        and value.get("rotation") in (0, 1, 2, 3)
        and type(value.get("epoch", 0)) is int
        and (value.get("requested_at") is None or is_number(value["requested_at"]))
    )


def _prompts(run: Path) -> dict[tuple[str, int], str]:
    """(episode, frame) → SHA-256 of the JPEG that a model was shown."""
    found: dict[tuple[str, int], str] = {}
    for line in read_lines(run / "events.jsonl"):
        if line.get("event") == "actors.plan.asked" and isinstance(line.get("frames"), dict):
            for seq, digest in line["frames"].items():
                if seq.isdecimal() and isinstance(digest, str):
                    found[(str(line.get("episode", "")), int(seq))] = digest
    return found
