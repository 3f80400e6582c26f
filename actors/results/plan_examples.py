"""What a run holds for training: every plan with its prompt as it was served, its reply, and what its actions did."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from actors.results.record import RecordedStep, RecordUnreadable
from actors.results.replay import episode_folders, read_header, recorded_steps
from inference.messages import TextPart
from inference.profile import ModelProfile
from policies.planner import FrameRef, PlanReply, Turn
from policies.reply import Reply, parse_reply

NOT_DONE = "not_done"
"""The effect of an action that was dropped, voided, or never reached."""


@attrs.frozen
class PlannedOne:
    """One action of a reply."""

    seq: int
    """Its number in the episode."""
    effect: str
    """`seen`, `none` (it was done, and nothing changed), `stale`, `not_done`, or another word of the record."""


@attrs.frozen
class PlanExample:
    """One plan: prompt, frames, reply, and what became of it."""

    run: str
    episode: str
    app: str
    request_id: str
    why: str
    """Why the plan was asked for: `empty`, `overlap`, `stale`, `no_effect` or `reflex`."""
    turns: tuple[Turn, ...]
    """Exactly the prompt's layout; frames by number."""
    frames: Mapping[int, Path]
    """Number → JPEG file, as it was sent."""
    reply: str
    model: str
    actions: tuple[PlannedOne, ...]
    outcome: str
    """Of its episode."""
    score: float | None

    @property
    def is_verified(self) -> bool:
        """Every action was done, and something was seen to change after each."""
        return bool(self.actions) and all(action.effect == "seen" for action in self.actions)


def plan_examples(run: Path) -> Iterator[PlanExample]:
    """Every plan of a run that came and can be read, episode by episode, in order.

    Raises:
        RecordUnreadable: the folder is no run, or a record is broken.
    """
    frames = _frames_of(run)
    for episode in episode_folders(run):
        header = read_header(episode)
        summary = _summary_of(episode)
        steps = tuple(recorded_steps(episode))
        effects = _effects_of(steps)
        score = summary.get("score")
        for request, reply in _plans_of(steps):
            shown = frames.get(request.request_id, {})
            actions = _actions_of(request, reply, effects, header.settings.profile)
            yield PlanExample(
                run=run.name,
                episode=header.episode,
                app=header.app,
                request_id=request.request_id,
                why=request.why,
                turns=request.turns,
                frames={seq: run / "frames" / f"{digest}.jpg" for seq, digest in shown.items()},
                reply=reply.text,
                model=reply.model,
                actions=actions,
                outcome=str(summary.get("outcome", "unknown")),
                score=float(score) if isinstance(score, int | float) else None,
            )


def _frames_of(run: Path) -> Mapping[str, Mapping[int, str]]:
    """Request → number of a frame → its JPEG's hash."""
    found: dict[str, dict[int, str]] = {}
    try:
        lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordUnreadable(f"{run}: {error}") from error
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the line that a crash cut short
        if isinstance(event, dict) and event.get("event") == "actors.plan.asked":
            frames = event.get("frames")
            if isinstance(frames, dict):
                found[str(event.get("request_id"))] = {int(seq): str(digest) for seq, digest in frames.items()}
    return found


def _summary_of(episode: Path) -> Mapping[str, Any]:
    """Empty where the episode did not end: a crash came first."""
    try:
        summary = json.loads((episode / "episode.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return summary if isinstance(summary, dict) else {}


@attrs.frozen
class _Asked:
    """A request as the record has it."""

    request_id: str
    why: str
    base_seq: int
    turns: tuple[Turn, ...]


def _plans_of(steps: tuple[RecordedStep, ...]) -> Iterator[tuple[_Asked, PlanReply]]:
    asked: dict[str, _Asked] = {}
    for step in steps:
        request = step.output.get("request")
        if isinstance(request, dict):
            one = _Asked(request["request_id"], request["why"], int(request["base_seq"]), _turns_of(request["turns"]))
            asked[one.request_id] = one
        reply = step.given.plan
        if isinstance(reply, PlanReply) and reply.request_id in asked:
            yield asked[reply.request_id], reply


def _turns_of(turns: list[Mapping[str, Any]]) -> tuple[Turn, ...]:
    return tuple(
        Turn(turn["role"], tuple(TextPart(p["text"]) if "text" in p else FrameRef(p["seq"]) for p in turn["parts"]))
        for turn in turns
    )


def _effects_of(steps: tuple[RecordedStep, ...]) -> Mapping[int, str]:
    """Number of an action → what became of it, by the notes of the record."""
    effects: dict[int, str] = {}
    for step in steps:
        for note in step.output.get("notes", ()):
            fields = note.get("fields", {})
            match note.get("event"):
                case "policies.action.settled":
                    effects[int(fields["seq"])] = str(fields.get("effect", ""))
                case "policies.action.had_no_effect":
                    effects[int(fields["seq"])] = "none"
                case "policies.plan.stale":
                    effects.setdefault(int(fields["seq"]), "stale")
    return effects


def _actions_of(
    request: _Asked, reply: PlanReply, effects: Mapping[int, str], profile: ModelProfile
) -> tuple[PlannedOne, ...]:
    parsed = parse_reply(reply.text, profile, cut=reply.cut)
    count = len(parsed.steps) if isinstance(parsed, Reply) else 0
    return tuple(
        PlannedOne(seq, effects.get(seq, NOT_DONE)) for seq in range(request.base_seq, request.base_seq + count)
    )
