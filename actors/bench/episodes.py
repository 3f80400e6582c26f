"""The prompts of whole episodes, made beforehand: equal seeds give equal bytes, whoever is asked.

A step's answer is not known before it is asked, so the history that the prompts tell is made up, as long as a real
one. Frames come from a bundled app that is played at random, from a run folder, or are drawn small for load alone.
"""

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from random import Random

import attrs
import cv2
import numpy as np

from actors.bench.engines import BenchUnavailable
from actors.pictures import encode_jpeg
from actors.rehearsal.apps.base import Touch, TouchPhase
from actors.rehearsal.apps.catalog import APPS
from inference.messages import Constraint, ImagePart, Message, Part, Prompt, TextPart
from inference.profile import ModelProfile, PromptLayout
from policies.planner import FrameRef, HistoryLine, Window, constraint_for, query_text, turns_for, window_after
from runtime.ids import DEFAULT_TENANT, TenantId

FRAME_SECONDS = 0.5  # of app time between two frames: about a plan
MOVES_A_PLAN = 3
JPEG_SUFFIXES = (".jpg", ".jpeg")


@attrs.frozen
class Episode:
    """One episode's prompts, in order."""

    key: str
    prompts: tuple[Prompt, ...]
    thinks: tuple[float, ...]
    """Seconds before each of them."""


def episode_prompts(
    key: str,
    frames: Sequence[ImagePart],
    profile: ModelProfile,
    *,
    seed: int,
    goal: str = "Survive as many waves as you can.",
    max_tokens: int | None = None,
    constrained: bool = True,
    tenant: TenantId = DEFAULT_TENANT,
) -> tuple[Prompt, ...]:
    """A prompt a frame, in the profile's layout, as the planner lays them out.

    Args:
        key: routing key, and the start of every request's id.
        frames: one a step.
        profile: of the model.
        seed: of the made-up history.
        goal: that the query names.
        max_tokens: instead of the profile's.
        constrained: whether decoding is constrained as the profile says.
        tenant: who asks.
    """
    dice = Random(f"{seed}-{key}")
    history: list[HistoryLine] = []
    window = Window()
    prompts = []
    for step in range(len(frames)):
        scheduled = "none" if step == 0 else _made_up_plan(dice)
        query = query_text(profile, goal=goal, scheduled=scheduled, note="")
        turns = turns_for(
            profile,
            history=history,
            previous_seq=step - 1 if step else None,
            current_seq=step,
            query=query,
            window=window,
        )
        messages = tuple(Message(turn.role, tuple(_filled(part, frames) for part in turn.parts)) for turn in turns)
        prompts.append(
            Prompt(
                request_id=f"{key}-{step}",
                tenant=tenant,
                routing_key=key,
                messages=messages,
                max_tokens=profile.max_tokens if max_tokens is None else max_tokens,
                constraint=constraint_for(profile) if constrained else Constraint(),
                stop=profile.stop,
                temperature=profile.temperature,
            )
        )
        said = _made_up_plan(dice)
        history.append(HistoryLine(said, "changed"))
        if profile.layout is PromptLayout.APPEND:
            window = window_after(window, profile, history, (step, query, said))
    return tuple(prompts)


def app_frames(app: str, count: int, *, seed: int, profile: ModelProfile) -> tuple[ImagePart, ...]:
    """Frames of a bundled app that is touched at random, as the profile has them encoded.

    Raises:
        BenchUnavailable: there is no such app.
    """
    if app not in APPS:
        raise BenchUnavailable(f"there is no bundled app {app!r}: {', '.join(sorted(APPS))}")
    dice = Random(seed)
    game = APPS[app](seed=seed, width=720, height=1280, now=0.0)
    frames = []
    for number in range(count):
        now = number * FRAME_SECONDS
        screen = game.draw(now)
        frames.append(_encoded(screen, profile))
        x, y = dice.randrange(screen.shape[1]), dice.randrange(screen.shape[0])
        game.touch(now + 0.1, Touch(TouchPhase.DOWN, x, y))
        game.touch(now + 0.2, Touch(TouchPhase.UP, x, y))
    return tuple(frames)


def recorded_frames(folder: Path, count: int) -> tuple[ImagePart, ...]:
    """The JPEGs that a run folder keeps of its prompts, in the order of their names, and again from the first.

    Raises:
        BenchUnavailable: there are none, or one is no JPEG.
    """
    place = folder / "frames" if (folder / "frames").is_dir() else folder
    try:
        found = sorted(path for path in place.iterdir() if path.suffix.lower() in JPEG_SUFFIXES)
        parts = [_read(path) for path in found[:count]]
    except OSError as error:
        raise BenchUnavailable(f"frames cannot be read: {error}") from error
    if not parts:
        raise BenchUnavailable(f"{folder} holds no frames: give a run folder, or a folder of .jpg files")
    return tuple(itertools.islice(itertools.cycle(parts), count))


def small_frames(count: int, *, seed: int, width: int, height: int) -> tuple[ImagePart, ...]:
    """Pictures of noise in large squares: cheap to draw and to send, and no two alike."""
    dice = np.random.default_rng(seed)
    frames = []
    for _ in range(count):
        squares = dice.integers(0, 256, (8, 6, 3), np.uint8)
        screen = cv2.resize(squares, (width, height), interpolation=cv2.INTER_NEAREST)
        ok, encoded = cv2.imencode(".jpg", screen, [cv2.IMWRITE_JPEG_QUALITY, 70])
        assert ok, "a picture of squares can be encoded"
        jpeg = np.asarray(encoded).tobytes()
        frames.append(ImagePart(jpeg, hashlib.sha256(jpeg).hexdigest(), width, height))
    return tuple(frames)


def _encoded(screen: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], profile: ModelProfile) -> ImagePart:
    """Apps draw RGB; a phone's frames are BGR by then."""
    return encode_jpeg(
        np.ascontiguousarray(screen[:, :, ::-1]), max_side=profile.max_side, quality=profile.jpeg_quality
    )


def _read(path: Path) -> ImagePart:
    jpeg = path.read_bytes()
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR) if jpeg else None
    if picture is None:
        raise BenchUnavailable(f"{path} is no picture")
    height, width = picture.shape[:2]
    return ImagePart(jpeg, hashlib.sha256(jpeg).hexdigest(), width, height)


def _filled(part: TextPart | FrameRef, frames: Sequence[ImagePart]) -> Part:
    return frames[part.seq] if isinstance(part, FrameRef) else part


def _made_up_plan(dice: Random) -> str:
    return ";".join(f"T{dice.randrange(1000):03},{dice.randrange(1000):03}" for _ in range(MOVES_A_PLAN))
