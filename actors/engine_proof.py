"""What an engine must show before it counts as ready: an answer to a picture in a grammar, and sound settings."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import trio

from inference.client import EngineClient
from inference.command import setting_in
from inference.config import EngineConfig, LaunchConfig
from inference.description import describe_engine
from inference.errors import EngineError, EngineGarbled, EngineLost, EngineRefused, EngineTooSlow
from inference.inspection import Expected, inspect_engine
from inference.messages import Constraint, ImagePart, Message, Prompt, TextPart
from runtime.ids import DEFAULT_TENANT
from runtime.secret import Secret
from runtime.telemetry import emit

PROOF_SECONDS = 120.0  # the first picture compiles kernels
PROOF_REGEX = "T[0-9]{3},[0-9]{3}"  # a tap of the compact grammar
PROOF_TOKENS = 16  # it has 8 characters, and no token is shorter than one
PROOF_SIZE = (320, 192)


class ProofFailed(EngineError):
    """An engine runs, but does not answer a picture in a grammar: a kernel or a backend of it is broken."""


PROOF_FAILURES = (ProofFailed,)


async def prove_engine(config: EngineConfig, launch: LaunchConfig, url: str, key: Secret | None) -> None:
    """Ask for a tap on a picture, constrained to the grammar; returns when the answer is one.

    A model without a vision encoder is asked without a picture.

    Raises:
        ProofFailed: the answer is another, or none came.
    """
    picture = proof_picture() if sees_pictures(launch) else None
    client = EngineClient(config, url, api_key=key)
    try:
        now = trio.current_time()
        completion = await client.complete(
            proof_prompt(config, picture), deadline=now + PROOF_SECONDS, why="proof", called_at=now
        )
    except (EngineRefused, EngineLost, EngineTooSlow, EngineGarbled) as error:
        raise ProofFailed(f"it answers no picture with a grammar: {error}", engine=config.id) from error
    finally:
        with trio.CancelScope(shield=True):
            await client.aclose()
    if re.fullmatch(PROOF_REGEX, completion.text) is None:
        raise ProofFailed(f"it does not keep to a grammar: {completion.text[:80]!r}", engine=config.id)
    seconds = completion.prefill_seconds + completion.decode_seconds
    emit(
        "actors.engine.proved", engine=config.id, seconds=round(seconds, 3), image_tokens=completion.usage.image_tokens
    )


async def report_description(
    config: EngineConfig, url: str, key: Secret | None, argv: Sequence[str] = (), launch: LaunchConfig | None = None
) -> tuple[str, ...]:
    """Hold what the engine says of itself against what was asked for; each mismatch is a warning in the log.

    Returns:
        The mismatches.
    """
    try:
        info = await describe_engine(config, url, key)
    except EngineError as error:
        emit("actors.engine.not_described", level="warning", engine=config.id, error=str(error))
        return ()
    if info is None:
        return ()
    asked = setting_in(argv, "--kv-cache-dtype")
    cards = None if launch is None else (1 if launch.pair_gpu is None else 2)
    findings = inspect_engine(
        info,
        Expected(
            max_in_flight=config.max_in_flight,
            kv_cache_dtype=None if asked == "auto" else asked,
            context_length=None if launch is None else launch.context_length,
            cards=None if setting_in(argv, "--tp-size") or setting_in(argv, "--tp") else cards,
        ),
    )
    for mismatch in findings.mismatches:
        emit("actors.engine.mismatched", level="warning", engine=config.id, what=mismatch)
    emit("actors.engine.described", engine=config.id, version=findings.version, kv_tokens=findings.kv_tokens)
    return findings.mismatches


def proof_prompt(config: EngineConfig, picture: ImagePart | None) -> Prompt:
    """The one request of the proof."""
    parts = (*(() if picture is None else (picture,)), TextPart("Tap the bright square."))
    return Prompt(
        request_id=f"proof-{config.id}",
        tenant=DEFAULT_TENANT,
        routing_key=f"proof-{config.id}",
        messages=(Message("user", parts),),
        max_tokens=PROOF_TOKENS,
        constraint=Constraint(regex=PROOF_REGEX),
    )


def proof_picture() -> ImagePart:
    """A dark picture with a bright square; the same bytes each time."""
    width, height = PROOF_SIZE
    pixels = np.full((height, width, 3), 40, np.uint8)
    pixels[64:128, 128:192] = 230
    ok, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 85])
    assert ok
    jpeg = encoded.tobytes()
    return ImagePart(jpeg, hashlib.sha256(jpeg).hexdigest(), width, height)


def sees_pictures(launch: LaunchConfig) -> bool:
    """False where the model's own config.json has no vision encoder; a model without a file here is taken to see."""
    file = Path(launch.model_path or "") / "config.json"
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):  # it is fetched by name, or lies in a container
        return True
    return not isinstance(config, dict) or "vision_config" in config
