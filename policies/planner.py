"""System 2: what the model is asked, in a byte-stable order, and what its reply means on this screen."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

import attrs

from inference.messages import Constraint, ImagePart, Message, Part, Prompt, TextPart
from inference.profile import ModelProfile, PromptLayout, ReplyCodec
from policies.action import (
    Action,
    Finish,
    Key,
    LongPress,
    PlannedAction,
    PlanStep,
    Swipe,
    Tap,
    Text,
    Wait,
    points_of,
    with_points_mapped,
)
from policies.geometry import Box, Coordinates, Geometry, ModelSpace, device_to_model, model_to_device
from policies.grammar import ebnf_for, encode, regex_for
from policies.perception import Percept
from policies.reply import Reply, grammar_for
from runtime.ids import TenantId

TARGET_RADIUS_SHARE = 0.07  # of the short side: 50 pixels of 720, half a usual button


@attrs.frozen
class FrameRef:
    """Stands for the JPEG of a frame until the shell has encoded it."""

    seq: int


@attrs.frozen
class Turn:
    """One message of a plan request, with frames by reference."""

    role: str
    parts: tuple[TextPart | FrameRef, ...]


@attrs.frozen
class PlanRequest:
    """What to ask the model. At most one is out per episode."""

    request_id: str
    asked_at: float
    why: str
    """`empty`, `overlap`, `stale`, `no_effect` or `reflex`."""
    turns: tuple[Turn, ...]
    current: Percept = attrs.field(repr=False)
    """The frame that the plan is made on."""
    base_seq: int
    """Number of the first action that the reply will hold."""
    reflex_epoch: int


@attrs.frozen
class PlanReply:
    """The model has answered. Times in seconds."""

    request_id: str
    text: str
    cut: bool
    """The token limit ended it."""
    output_tokens: int
    cached_tokens: int
    prompt_tokens: int
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float
    engine: str = ""
    model: str = ""
    why: str = ""


class PlanFailureKind(StrEnum):
    """Whose fault it was that no plan came."""

    LATE = "late"
    """Past the deadline."""
    ENGINE = "engine"
    """No engine could answer."""
    REFUSED = "refused"
    """The engine refused the request."""
    GARBLED = "garbled"
    """The reply held no action."""


@attrs.frozen
class PlanFailed:
    """No plan came of a request."""

    request_id: str
    kind: PlanFailureKind
    message: str


@attrs.frozen
class HistoryLine:
    """One past plan as text. It is written once, when all that it did is known, so prompts keep their prefix."""

    actions: str
    effect: str


@attrs.frozen
class Window:
    """`append` layout: what has been shown and said since the last re-base."""

    history: tuple[HistoryLine, ...] = ()
    """As it was at the re-base."""
    shown: tuple[tuple[int, str, str], ...] = ()
    """(frame seq, query text, reply text) of each plan since."""


def image_size(width: int, height: int, max_side: int) -> tuple[int, int]:
    """(width, height) of the picture that is sent of a frame of that size."""
    longer = max(width, height)
    if longer <= max_side:
        return (width, height)
    return (max(1, round(width * max_side / longer)), max(1, round(height * max_side / longer)))


def model_space_for(profile: ModelProfile, geometry: Geometry) -> ModelSpace:
    """The model's coordinates for pictures of this screen."""
    width, height = image_size(geometry.width, geometry.height, profile.max_side)
    return ModelSpace(
        Coordinates(profile.coordinates),
        width,
        height,
        factor=profile.resize_factor,
        min_pixels=profile.min_pixels,
        max_pixels=profile.max_pixels,
    )


def constraint_for(profile: ModelProfile) -> Constraint:
    """The decoding constraint; empty where the profile says that there is none."""
    if not profile.constrained or profile.codec is not ReplyCodec.COMPACT:
        return Constraint()
    grammar = grammar_for(profile)
    return Constraint(regex=regex_for(grammar), ebnf=ebnf_for(grammar), gbnf=ebnf_for(grammar))


def describe(actions: Sequence[PlannedAction], profile: ModelProfile, geometry: Geometry) -> str:
    """Actions as the model would write them; `none` when there are none."""
    space = model_space_for(profile, geometry)
    if profile.codec is not ReplyCodec.COMPACT:
        return "; ".join(_sentence(planned.action, space, geometry) for planned in actions) or "none"
    return ";".join(_compact(planned.action, space, geometry) for planned in actions) or "none"


def _compact(action: Action, space: ModelSpace, geometry: Geometry) -> str:
    try:
        return encode([with_points_mapped(action, lambda x, y: device_to_model(x, y, space, geometry))])
    except ValueError:  # kinds that the grammar has no letter for are told in words
        return _sentence(action, space, geometry)


def _sentence(action: Action, space: ModelSpace, geometry: Geometry) -> str:
    points = [device_to_model(x, y, space, geometry) for x, y in points_of(action)]
    where = " to ".join(f"({x}, {y})" for x, y in points)
    match action:
        case Tap():
            return f"tap {where}"
        case LongPress(seconds=seconds):
            return f"press {where} for {seconds:g} s"
        case Swipe():
            return f"swipe {where}"
        case Key(name):
            return f"press {name.value.lower()}"
        case Text(text):
            return f"type {text!r}"
        case Wait(seconds):
            return f"wait {seconds:g} s"
        case _:
            return f"{type(action).__name__.lower()} {where}"


def history_text(history: Sequence[HistoryLine], profile: ModelProfile) -> str:
    """The text part of the history.

    Lines are dropped from the front in blocks of `history_steps`, not one by one: between two drops the text only
    grows, so an engine's prefix cache keeps it.
    """
    limit = max(1, profile.history_steps)
    dropped = max(0, (len(history) - limit) // limit) * limit
    lines = [
        filled_template(profile.history_line, step=str(dropped + n + 1), actions=line.actions, effect=line.effect)
        for n, line in enumerate(history[dropped:])
    ]
    return "\n".join([profile.history_heading, *lines])


def filled_template(template: str, **values: str) -> str:
    """Put values into `{name}` places in one pass; all other braces, such as a JSON example's, stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match.group(1), match.group(0)), template)


def query_text(profile: ModelProfile, *, goal: str, scheduled: str, note: str) -> str:
    """The last text of the prompt."""
    query = filled_template(profile.query, goal=goal, scheduled=scheduled, notes=note)
    return f"{query}\nNote: {note}" if note and "{notes}" not in profile.query else query


def turns_for(
    profile: ModelProfile,
    *,
    history: Sequence[HistoryLine],
    previous_seq: int | None,
    current_seq: int,
    query: str,
    window: Window,
) -> tuple[Turn, ...]:
    """The messages of a request, in the profile's layout.

    Args:
        profile: Names the layout.
        history: Closed lines, oldest first (`sliding`; `append` takes those of its window).
        previous_seq: Frame of the plan before, if there was one (`sliding`).
        current_seq: The newest frame.
        query: The last text.
        window: What `append` has shown since its re-base.
    """
    system = Turn("system", (TextPart(profile.system),))
    if profile.layout is PromptLayout.SLIDING:
        frames = [FrameRef(seq) for seq in (previous_seq, current_seq) if seq is not None]
        opening_text = TextPart(history_text(history, profile))
        return (system, Turn("user", (opening_text, *frames, TextPart(query))))
    turns = [system]
    opening: tuple[TextPart, ...] = (TextPart(history_text(window.history, profile)),)
    for seq, asked, said in window.shown:
        turns.append(Turn("user", (*opening, FrameRef(seq), TextPart(asked))))
        turns.append(Turn("assistant", (TextPart(said),)))
        opening = ()
    turns.append(Turn("user", (*opening, FrameRef(current_seq), TextPart(query))))
    return tuple(turns)


def window_after(
    window: Window, profile: ModelProfile, history: Sequence[HistoryLine], shown: tuple[int, str, str]
) -> Window:
    """`append`: the window with one more plan, or a new one when it has held `rebase_steps`."""
    grown = (*window.shown, shown)
    if len(grown) >= max(1, profile.rebase_steps):
        return Window(history=tuple(history))
    return Window(window.history, grown)


def frames_of(turns: Sequence[Turn]) -> tuple[int, ...]:
    """`Frame.seq` of every frame that the turns name, in order, without repeats."""
    seqs = [part.seq for turn in turns for part in turn.parts if isinstance(part, FrameRef)]
    return tuple(dict.fromkeys(seqs))


def fill(
    request: PlanRequest,
    images: Mapping[int, ImagePart],
    profile: ModelProfile,
    *,
    tenant: TenantId,
    routing_key: str,
) -> Prompt:
    """The prompt of a request, once its frames are encoded.

    Raises:
        KeyError: a frame of the request is not in `images`.
    """

    def filled(part: TextPart | FrameRef) -> Part:
        return images[part.seq] if isinstance(part, FrameRef) else part

    return Prompt(
        request_id=request.request_id,
        tenant=tenant,
        routing_key=routing_key,
        messages=tuple(Message(turn.role, tuple(filled(p) for p in turn.parts)) for turn in request.turns),
        max_tokens=profile.max_tokens,
        constraint=constraint_for(profile),
        stop=profile.stop,
        temperature=profile.temperature,
    )


@attrs.frozen
class Placed:
    """A reply's actions on this screen."""

    actions: tuple[PlannedAction, ...]
    finish: Finish | None = None
    """The model says that the goal is reached or cannot be; what it said after that is not taken."""
    off_screen: int = 0
    """Actions that pointed off the screen: they and all after them are dropped, as the model saw another screen."""


def place(reply: Reply, request: PlanRequest, profile: ModelProfile) -> Placed:
    """Put a reply's actions on the screen that it was planned on, each with its preconditions."""
    percept = request.current
    geometry = Geometry(percept.width, percept.height, percept.rotation)
    space = model_space_for(profile, geometry)
    actions: list[PlannedAction] = []
    for position, step in enumerate(reply.steps):
        if isinstance(step, Finish):
            return Placed(tuple(actions), finish=step)
        action = with_points_mapped(step, lambda x, y: model_to_device(x, y, space, geometry))
        if not all(geometry.contains(x, y) for x, y in points_of(action)):
            return Placed(tuple(actions), off_screen=len(reply.steps) - position)
        actions.append(
            PlannedAction(
                action=action,
                seq=request.base_seq + len(actions),
                planned_on=percept.seq,
                planned_at=percept.requested_at,
                epoch=percept.epoch,
                reflex_epoch=request.reflex_epoch,
                target=target_for(action, geometry),
                idempotent=is_idempotent(action),
            )
        )
    return Placed(tuple(actions))


def target_for(action: Action, geometry: Geometry) -> Box | None:
    """The device pixels that an action is about.

    Around its points, clipped to the screen; the whole screen for keys and text, which go to whatever is shown; None
    for a wait.
    """
    if isinstance(action, Wait):
        return None
    points = points_of(action)
    if not points:
        return Box(0, 0, geometry.width, geometry.height)
    radius = max(1, round(geometry.short_side * TARGET_RADIUS_SHARE))
    xs, ys = [x for x, _ in points], [y for _, y in points]
    box = Box(min(xs) - radius, min(ys) - radius, max(xs) + radius + 1, max(ys) + radius + 1)
    return box.clipped(geometry.width, geometry.height)


def is_idempotent(step: PlanStep) -> bool:
    """May be sent again when nothing was seen of it: a tap or a press; never typed text, a key or a swipe."""
    return isinstance(step, Tap | LongPress)
