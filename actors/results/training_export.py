"""Plans of runs as training data, in exactly the layout in which they were served: chat JSON lines, or Parquet.

Examples are split by episode, so that no frame of a held-out episode has been trained on. A data card tells what it is.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
import duckdb

from actors.results.plan_examples import PlanExample
from inference.messages import TextPart
from policies.planner import FrameRef

SPLITS = ("train", "validation", "test")
CARD = "README.md"


class ExportFormat(StrEnum):
    """How examples are written."""

    CHAT = "chat"
    """`<split>.jsonl`, one object a plan with `messages`; pictures as files beside it."""
    PARQUET = "parquet"
    """`<split>.parquet`, one row a plan; pictures in the file."""


class ExportFailed(Exception):
    """Nothing was exported. The text says why, and what to do."""


@attrs.frozen
class ExportFilter:
    """Which plans are worth learning from."""

    verified: bool = False
    """Only those whose every action was done and seen to have an effect."""
    min_score: float | None = None
    """Of the episode."""
    outcomes: tuple[str, ...] = ()
    """Of the episode; none named is all."""
    apps: tuple[str, ...] = ()

    def keeps(self, example: PlanExample) -> bool:
        """Whether an example is taken."""
        return (
            (not self.verified or example.is_verified)
            and (self.min_score is None or (example.score is not None and example.score >= self.min_score))
            and (not self.outcomes or example.outcome in self.outcomes)
            and (not self.apps or example.app in self.apps)
        )


@attrs.frozen
class Exported:
    """What was written."""

    folder: Path
    examples: Mapping[str, int]
    """By split."""
    episodes: int
    pictures: int
    left_out: int
    """Plans that the filter did not take."""
    without_pictures: int
    """Plans that were left out as a picture of theirs is not in the run any more."""


def split_of(episode: str, shares: Sequence[float]) -> str:
    """The split of an episode: by its name alone, so that it stays where it is when other runs are added.

    Args:
        episode: Its id.
        shares: Of training, validation and test; they sum up to 1.
    """
    number = int.from_bytes(hashlib.sha256(episode.encode()).digest()[:8]) / 2**64
    for name, share in zip(SPLITS, shares, strict=True):
        number -= share
        if number < 0:
            return name
    return SPLITS[0]


def export(
    examples: Iterable[PlanExample],
    folder: Path,
    form: ExportFormat,
    kept: ExportFilter,
    shares: Sequence[float],
    sources: Sequence[str],
) -> Exported:
    """Write a data set into a new folder.

    Args:
        examples: Of all runs.
        folder: Must not be there yet.
        form: Of the files.
        kept: Which ones are taken.
        shares: See `split_of`.
        sources: Names of the runs, for the card.

    Raises:
        ExportFailed: the folder is there already, or no plan is left.
        OSError: it cannot be written.
    """
    if folder.exists():
        raise ExportFailed(f"{folder} is there already: name another folder")
    taken: dict[str, list[PlanExample]] = {name: [] for name in SPLITS}
    left_out = without_pictures = 0
    for example in examples:
        if not kept.keeps(example):
            left_out += 1
        elif not all(path.is_file() for path in example.frames.values()) or not _names_its_frames(example):
            without_pictures += 1
        else:
            taken[split_of(example.episode, shares)].append(example)
    if not any(taken.values()):
        raise ExportFailed("no plan is left to export: loosen the filters, or name other runs")
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    pictures = _write(taken, unfinished, form)
    done = Exported(
        folder,
        {name: len(of) for name, of in taken.items()},
        len({example.episode for of in taken.values() for example in of}),
        pictures,
        left_out,
        without_pictures,
    )
    (unfinished / CARD).write_text(_card(done, taken, form, kept, shares, sources), encoding="utf-8")
    unfinished.rename(folder)
    return done


def _names_its_frames(example: PlanExample) -> bool:
    parts = (part for turn in example.turns for part in turn.parts)
    return all(part.seq in example.frames for part in parts if isinstance(part, FrameRef))


def messages_of(example: PlanExample, name_of: Mapping[Path, str]) -> list[dict[str, Any]]:
    """The prompt as it was served, part by part, and the reply as the assistant's turn.

    Args:
        example: The plan.
        name_of: What each picture is called in the data set.
    """
    messages: list[dict[str, Any]] = []
    for turn in example.turns:
        parts: list[dict[str, Any]] = []
        for part in turn.parts:
            if isinstance(part, TextPart):
                parts.append({"type": "text", "text": part.text})
            else:
                parts.append({"type": "image", "image": name_of[example.frames[part.seq]]})
        messages.append({"role": turn.role, "content": parts})
    messages.append({"role": "assistant", "content": [{"type": "text", "text": example.reply}]})
    return messages


def _row(example: PlanExample, name_of: Mapping[Path, str]) -> dict[str, Any]:
    return {
        "id": example.request_id,
        "run": example.run,
        "episode": example.episode,
        "app": example.app,
        "model": example.model,
        "asked_because": example.why,
        "messages": messages_of(example, name_of),
        "actions": [{"seq": action.seq, "effect": action.effect} for action in example.actions],
        "verified": example.is_verified,
        "outcome": example.outcome,
        "score": example.score,
    }


def _write(taken: Mapping[str, list[PlanExample]], folder: Path, form: ExportFormat) -> int:
    paths = list(dict.fromkeys(path for of in taken.values() for example in of for path in example.frames.values()))
    name_of = {path: f"frames/{path.name}" for path in paths}
    if form is ExportFormat.CHAT:
        (folder / "frames").mkdir()
        for path in paths:
            shutil.copyfile(path, folder / name_of[path])
    for split, examples in taken.items():
        rows = [json.dumps(_row(example, name_of), ensure_ascii=False) for example in examples]
        if form is ExportFormat.CHAT:
            (folder / f"{split}.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        elif examples:
            _write_parquet(folder / f"{split}.parquet", examples, name_of)
    return len(paths)


def _write_parquet(path: Path, examples: Sequence[PlanExample], name_of: Mapping[Path, str]) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE plans (id VARCHAR, run VARCHAR, episode VARCHAR, app VARCHAR, model VARCHAR, "
            "asked_because VARCHAR, messages VARCHAR, actions STRUCT(seq INTEGER, effect VARCHAR)[], verified BOOLEAN, "
            "outcome VARCHAR, score DOUBLE, images STRUCT(name VARCHAR, jpeg BLOB)[])"
        )
        for example in examples:
            row = _row(example, name_of)
            images = [{"name": name_of[frame], "jpeg": frame.read_bytes()} for frame in example.frames.values()]
            values = [json.dumps(v, ensure_ascii=False) if k == "messages" else v for k, v in row.items()]
            connection.execute(f"INSERT INTO plans VALUES ({', '.join('?' * 12)})", [*values, images])  # noqa: S608
        target = str(path).replace("'", "''")
        connection.execute(f"COPY plans TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


def _card(
    done: Exported,
    taken: Mapping[str, list[PlanExample]],
    form: ExportFormat,
    kept: ExportFilter,
    shares: Sequence[float],
    sources: Sequence[str],
) -> str:
    examples = [example for of in taken.values() for example in of]
    effects = Counter(action.effect for example in examples for action in example.actions)
    lines = [
        "# Plans of game bots",
        "",
        "Each example is one plan: the prompt exactly as it was served (system, history as text, pictures as they were"
        " sent, query), the reply, and what each of its actions did on the screen.",
        "",
        f"- format: {form}; pictures: {done.pictures} JPEG files as they were sent",
        f"- runs: {', '.join(sources)}",
        f"- plans: {len(examples)} of {done.episodes} episodes; {done.left_out} were filtered out, "
        f"{done.without_pictures} lacked a picture",
        "- split by episode, by a hash of its id: "
        + ", ".join(
            f"{name} {share:g} ({done.examples[name]} plans)" for name, share in zip(SPLITS, shares, strict=True)
        ),
        f"- filters: {_filters(kept)}",
        *_counts("apps", Counter(example.app for example in examples)),
        *_counts("models", Counter(example.model for example in examples)),
        *_counts("outcomes of their episodes", Counter(example.outcome for example in examples)),
        *_counts("effects of actions", effects),
        "",
        "`effect` is `seen` where the screen changed as it should after the action, `none` where it did not, `stale`"
        " where the target had changed before it was done, `not_done` where it was dropped or voided. A plan of a"
        " stand-in engine (model `rehearsal-*`) teaches a model nothing but the stand-in.",
        "",
    ]
    return "\n".join(lines)


def _filters(kept: ExportFilter) -> str:
    found = [
        *(["every action verified"] if kept.verified else []),
        *([f"score >= {kept.min_score:g}"] if kept.min_score is not None else []),
        *([f"outcome in {', '.join(kept.outcomes)}"] if kept.outcomes else []),
        *([f"app in {', '.join(kept.apps)}"] if kept.apps else []),
    ]
    return "; ".join(found) or "none"


def _counts(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    yield f"- {title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
