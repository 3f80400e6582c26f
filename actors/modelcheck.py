"""What one model makes of one screenshot: asked as a bot would ask it, parsed, placed, and drawn on the picture."""

from collections.abc import Sequence
from typing import Any

import attrs
import cv2
import numpy as np
import trio

from actors.pictures import encode_jpeg
from inference.config import EngineConfig
from inference.messages import Completion
from inference.pool import open_pool
from inference.profile import ModelProfile
from policies import planner
from policies.action import Action, Finish, PlanStep, Swipe, points_of
from policies.frame import Frame, Pixels
from policies.geometry import Geometry
from policies.grammar import ReplyFailure
from policies.perception import compile_probes, perceive
from policies.planner import Placed, PlanRequest, Window
from policies.reply import Reply, parse_reply
from runtime.ids import DEFAULT_TENANT

CIRCLE_SHARE = 0.035  # of the short side: 25 pixels of 720, smaller than a usual button
COLOR = (60, 20, 230)  # BGR red, on a white rim: seen on dark and on bright games
RIM = (255, 255, 255)


@attrs.frozen
class Look:
    """One action of the reply, as the model said it and where it lands."""

    number: int
    """From 1, in the order of the reply."""
    said: PlanStep
    """In model coordinates."""
    lands: Action | None
    """In pixels of the picture; None: it is not done, being off the screen or behind such an action or the end."""


@attrs.frozen
class Verdict:
    """What came of a reply."""

    looks: tuple[Look, ...]
    finish: Finish | None = None
    off_screen: int = 0
    """Actions that are dropped because one of them pointed off the picture."""
    dropped: str = ""
    """What stood behind the last readable action."""
    thinking: str = ""
    failure: str = ""
    """Why no action could be read; empty where one was."""

    @property
    def is_usable(self) -> bool:
        """Something of the reply would be done."""
        return any(look.lands is not None for look in self.looks) or self.finish is not None


def request_for(pixels: Pixels, profile: ModelProfile, goal: str) -> PlanRequest:
    """The request that a bot makes at the first frame of an episode."""
    height, width = pixels.shape[:2]
    frame = Frame(pixels, 0, 0.0, 0.0, Geometry(width, height))
    query = planner.query_text(profile, goal=goal, scheduled="none", note="")
    turns = planner.turns_for(profile, history=(), previous_seq=None, current_seq=0, query=query, window=Window())
    return PlanRequest(
        request_id="model-check-p0",
        asked_at=0.0,
        why="empty",
        turns=turns,
        current=perceive(compile_probes({}, {}), frame),
        base_seq=0,
        reflex_epoch=0,
    )


async def ask(
    request: PlanRequest, pixels: Pixels, profile: ModelProfile, engine: EngineConfig, *, timeout_seconds: float
) -> Completion:
    """Ask an engine, through the same door and in the same layout as a bot.

    Raises:
        EngineError: it did not answer.
        SecretMissing: its key is not in the environment.
    """
    image = encode_jpeg(pixels, max_side=profile.max_side, quality=profile.jpeg_quality)
    prompt = planner.fill(request, {0: image}, profile, tenant=DEFAULT_TENANT, routing_key="model-check")
    async with open_pool([engine]) as pool:
        return await pool(prompt, deadline=trio.current_time() + timeout_seconds)


def judge(text: str, request: PlanRequest, profile: ModelProfile, *, cut: bool = False) -> Verdict:
    """Read a reply and put its actions on the picture, as a bot does."""
    reply = parse_reply(text, profile, cut=cut)
    if isinstance(reply, ReplyFailure):
        return Verdict((), failure=reply.reason)
    placed = planner.place(reply, request, profile)
    return Verdict(
        _looks(reply, placed),
        finish=placed.finish,
        off_screen=placed.off_screen,
        dropped=reply.dropped,
        thinking=reply.thinking.strip(),
    )


def _looks(reply: Reply, placed: Placed) -> tuple[Look, ...]:
    done = [planned.action for planned in placed.actions]
    return tuple(
        Look(number, said, done[number - 1] if number <= len(done) else None)
        for number, said in enumerate(reply.steps, start=1)
    )


def drawn(pixels: Pixels, looks: Sequence[Look]) -> Pixels:
    """A copy of the picture with a numbered circle where each action touches it, and an arrow along each swipe."""
    picture = pixels.copy()
    radius = max(6, round(min(picture.shape[:2]) * CIRCLE_SHARE))
    width = max(2, radius // 6)
    for look in looks:
        if look.lands is None:
            continue
        points = points_of(look.lands)
        if isinstance(look.lands, Swipe):
            for color, thickness in ((RIM, width * 2), (COLOR, width)):
                cv2.arrowedLine(picture, points[0], points[1], color, thickness, cv2.LINE_AA, tipLength=0.15)
        for point in points[:1]:
            _draw_number(picture, point, look.number, radius, width)
    return picture


def _draw_number(picture: Pixels, at: tuple[int, int], number: int, radius: int, width: int) -> None:
    cv2.circle(picture, at, radius, RIM, width * 2, cv2.LINE_AA)
    cv2.circle(picture, at, radius, COLOR, width, cv2.LINE_AA)
    cv2.circle(picture, at, max(1, width // 2), COLOR, -1, cv2.LINE_AA)
    # beside the circle, so that what is under it stays visible; on the left where the right has no room
    scale = radius / 18
    (text_width, text_height), _ = cv2.getTextSize(str(number), cv2.FONT_HERSHEY_SIMPLEX, scale, width)
    fits = at[0] + radius + width + text_width < picture.shape[1]
    left = at[0] + radius + width if fits else at[0] - radius - width - text_width
    bottom = min(max(at[1], text_height + width), picture.shape[0] - width)
    # on a plate: outline fonts have no rim of another colour, and red on a red game is not seen
    cv2.rectangle(
        picture, (left - 2, bottom - text_height - width), (left + text_width + 2, bottom + width), RIM, cv2.FILLED
    )
    cv2.putText(picture, str(number), (left, bottom), cv2.FONT_HERSHEY_SIMPLEX, scale, COLOR, width, cv2.LINE_AA)


def encode_png(pixels: Pixels) -> bytes:
    """A picture as PNG.

    Raises:
        ValueError: OpenCV cannot encode it.
    """
    ok, encoded = cv2.imencode(".png", pixels)
    if not ok:
        raise ValueError("the picture could not be encoded as PNG")
    return np.asarray(encoded).tobytes()


def words_for(step: PlanStep | None) -> str:
    """An action in a few words with its numbers: `tap 322, 104`."""
    if step is None:
        return "not done"
    if isinstance(step, Finish):
        return f"finish: {'goal reached' if step.success else 'goal impossible'}"
    values = [str(getattr(value, "value", value)) for value in attrs.astuple(step, recurse=False)]
    return " ".join([_kind(step), ", ".join(values)]).strip()


def fields_for(step: PlanStep | None) -> dict[str, Any] | None:
    """An action as JSON-ready fields."""
    if step is None:
        return None
    return {"kind": _kind(step), **attrs.asdict(step, value_serializer=lambda _i, _f, v: getattr(v, "value", v))}


def _kind(step: PlanStep) -> str:
    words: list[str] = []
    for char in type(step).__name__:
        if char.isupper():
            words.append("")
        words[-1] += char.lower()
    return "_".join(words)
