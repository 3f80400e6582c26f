"""How one model wants to be spoken to, and how it answers. A user's own model plugs in by a file of these."""

from enum import StrEnum

import attrs


class PromptLayout(StrEnum):
    """In which order history and frames stand in the prompt."""

    SLIDING = "sliding"
    """[system][text history][previous frame][current frame][query]: the design document's order."""
    APPEND = "append"
    """[system][old text][frame][actions][frame][actions]...: only grows, re-based every `rebase_steps` plans."""


class ReplyCodec(StrEnum):
    """The language in which the model states its actions."""

    COMPACT = "compact"
    """Our own grammar, `T447,081;W03`, constrained while decoding."""
    QWEN_TOOL_CALL = "qwen_tool_call"
    """Qwen3-VL's `<tool_call>{"name": "mobile_use", "arguments": {...}}</tool_call>`."""
    UI_TARS = "ui_tars"
    """UI-TARS' `Thought: ... Action: click(start_box='(x,y)')`."""
    JSON = "json"
    """One JSON object or a list of them, by a mapping that the profile declares."""


@attrs.frozen
class JsonMapping:
    """Where the parts of an action stand in a model's JSON reply (codec `json`)."""

    actions_key: str = "actions"
    """Key of the list of actions; a reply without it is one action."""
    verb_key: str = "action"
    x_key: str = "x"
    y_key: str = "y"
    to_x_key: str = "x2"
    to_y_key: str = "y2"
    seconds_key: str = "seconds"
    text_key: str = "text"
    verbs: dict[str, str] = attrs.field(
        factory=lambda: {
            "tap": "tap",
            "click": "tap",
            "long_press": "long_press",
            "swipe": "swipe",
            "type": "text",
            "wait": "wait",
            "back": "back",
            "home": "home",
            "done": "done",
            "fail": "fail",
        }
    )
    """The model's verb → ours: tap, long_press, swipe, text, wait, back, home, done or fail."""


@attrs.frozen
class ModelProfile:
    """Everything about a model that is not an engine's address. All of it may be set in a profile file."""

    name: str = "compact"
    system: str = (
        "You play a mobile game. You see its screen and answer with the next actions only, in this grammar: "
        "T<x>,<y> tap; L<x>,<y>,<tenths> long press; S<x>,<y>,<x2>,<y2> swipe; W<tenths> wait; B back; H home; "
        'K"<text>" type; X1 goal reached; X0 goal impossible. x and y are three digits, 000 to 999, in thousandths '
        "of the screen's width and height. Tenths of a second are two digits. Up to 5 actions, joined by ';'."
    )
    """The fixed first message: byte-stable for a whole run."""
    history_heading: str = "Actions so far:"
    history_line: str = "{step}. {actions} -> {effect}"
    history_steps: int = attrs.field(default=8, metadata={"min": 0, "max": 1000})
    """How many past plans are kept as text."""
    query: str = "Goal: {goal}\nAlready scheduled: {scheduled}\nGive the actions that follow."
    """The last text. `{goal}`, `{scheduled}` and `{notes}` are filled in; a note that has no place is put below it.

    A model that is told what is `{scheduled}` plans what follows it; one that is not, plans from the frame on.
    """
    layout: PromptLayout = PromptLayout.SLIDING
    rebase_steps: int = attrs.field(default=5, metadata={"min": 1, "max": 100})
    """`append` only: after this many plans the window starts anew."""
    coordinates: str = attrs.field(
        default="per_mille",
        metadata={"pattern": "per_mille|absolute|smart_resized", "means": "per_mille, absolute or smart_resized"},
    )
    """`per_mille`, `absolute` or `smart_resized` (see `policies.geometry.Coordinates`)."""
    resize_factor: int = attrs.field(default=28, metadata={"min": 1})
    """`smart_resized` only: patch size x merge size (28 for Qwen2.5-VL and UI-TARS-1.5, 32 for Qwen3-VL)."""
    min_pixels: int = attrs.field(default=56 * 56, metadata={"min": 1})
    max_pixels: int = attrs.field(default=16384 * 28 * 28, metadata={"min": 1})
    """`smart_resized` only: as the engine's image processor has them."""
    pixels_per_token: int = attrs.field(default=28 * 28, metadata={"min": 1})
    """Vision tokens of a frame = its pixels / this."""
    max_side: int = attrs.field(default=1280, metadata={"min": 64, "max": 8192})
    """Frames are reduced so that the long side is at most this; coordinates are mapped back exactly."""
    jpeg_quality: int = attrs.field(default=85, metadata={"min": 1, "max": 100})
    codec: ReplyCodec = ReplyCodec.COMPACT
    json_mapping: JsonMapping = attrs.field(factory=JsonMapping)
    max_actions: int = attrs.field(default=5, metadata={"min": 1, "max": 20})
    """The longest chunk."""
    max_tokens: int = attrs.field(default=112, metadata={"min": 1, "max": 32768})
    """Hard limit on output tokens a plan. Five swipes, or four and a text, are 103 at a token a character."""
    max_text_length: int = attrs.field(default=32, metadata={"min": 0, "max": 1000})
    """Longest text that a plan may type."""
    stop: tuple[str, ...] = ()
    thinking: tuple[str, str] = ("<think>", "</think>")
    """What encloses thoughts: they are stripped from the reply, and counted."""
    constrained: bool = True
    """False: the engine has no grammar support; `max_tokens`, `stop` and a tolerant parser do what they can."""
    temperature: float = attrs.field(default=0.0, metadata={"min": 0, "max": 2})
