"""What attempts of a farm leave in tests: recorded episodes with a crash in them, and pictures."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import trio

from actors.farm.daemon import Farm
from actors.results.plan_examples import plan_examples
from policies.criteria import Outcome
from policies.planner import frames_of
from tests.kit.farm import ServedFarm
from tests.kit.run_folder import EPISODE, row, run_folder

CRASH = {
    "kind": "crash",
    "process": "dev.corral.game",
    "cause": "java.lang.IllegalStateException: wave 7",
    "excerpt": "at dev.corral.Game.next(Game.java:120)",
    "at": "",
}
FRAMES = 4


def jpeg(grey: int) -> bytes:
    """A small picture."""
    done, encoded = cv2.imencode(".jpg", np.full((64, 36, 3), grey, np.uint8))
    assert done
    return bytes(encoded.tobytes())


def sha_of(number: int) -> str:
    """Name of the picture of a frame of `leave`."""
    return hashlib.sha256(jpeg(number * 40)).hexdigest()


def leave(folder: Path, attempt: int = 1, *, crashes: bool = True, **more: Any) -> Path:
    """What attempts of that number leave: one episode of 20 steps, with pictures of its first ones."""
    target = folder / f"template-{attempt}"
    run = run_folder(folder / f"making-{attempt}")
    shutil.move(run, target)
    episode = target / "episodes" / EPISODE
    values = {"outcome": Outcome.FAILED, "faults": [CRASH]} if crashes else {}
    (episode / "episode.json").write_text(json.dumps(row(**{**values, **more})))
    (target / "frames").mkdir()
    shots = []
    for number in range(FRAMES):
        (target / "frames" / f"{sha_of(number)}.jpg").write_bytes(jpeg(number * 40))
        shots.append(
            {"seq": number, "at": 5 + number * 0.6, "file": f"{sha_of(number)}.jpg", "width": 36, "height": 64}
            | {"taps": [[0.5, 0.5]], "label": "tap"}
        )
    (target / "events.jsonl").touch()
    events = []
    for example in plan_examples(target):
        shown = {seq: sha_of(seq % FRAMES) for seq in frames_of(example.turns)}
        events.append({"event": "actors.plan.asked", "request_id": example.request_id, "frames": shown})
    (target / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    summary = {"run": {}, "episodes": [json.loads((episode / "episode.json").read_text())], "totals": {"episodes": 1}}
    (target / "summary.json").write_text(json.dumps(summary))
    (episode / "display.jsonl").write_text("".join(json.dumps(shot) + "\n" for shot in shots))
    return target


async def wait_scanned(served: ServedFarm, run: str) -> None:
    """Until every attempt at a run was read."""
    await wait_read(served.farm, run)


async def wait_read(farm: Farm, run: str) -> None:
    """Of a farm without its API."""
    with trio.fail_after(60):
        while True:
            attempts = await farm.store.do(lambda store: store.attempts(run))
            if attempts and all(one.scanned_at is not None for one in attempts):
                return
            await trio.sleep(0.02)
