"""Plays a bundled app in simulated time: no sleeping, no engine process, the same pictures that an engine would get."""

from collections.abc import Callable

import attrs
import cv2
import numpy as np

from actors.rehearsal.apps.base import App, AppFactory, Canvas, Touch, TouchPhase
from actors.rehearsal.engine.player.moves import MAX_MOVES, PlayMove, SwipeTo, TapAt, WaitFor, scheduled_moves
from actors.rehearsal.engine.player.picture import Picture
from actors.rehearsal.engine.player.play import reply_to

Planner = Callable[[Canvas, tuple[PlayMove, ...]], tuple[PlayMove, ...]]
"""(screen, moves already scheduled) -> the moves that follow."""

PAUSE_SECONDS = 0.15  # between two actions of one plan: a tap over adb takes about as long


def encoded_frame(screen: Canvas, *, max_side: int = 1280, quality: int = 85) -> bytes:
    """The JPEG that a bot would send of an RGB screen."""
    height, width = screen.shape[:2]
    scale = min(1.0, max_side / max(height, width))
    if scale < 1.0:
        size = (round(width * scale), round(height * scale))
        screen = np.asarray(cv2.resize(screen, size, interpolation=cv2.INTER_AREA), np.uint8)
    ok, data = cv2.imencode(".jpg", cv2.cvtColor(screen, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert ok
    return bytes(data)


def seeing_planner(max_tokens: int = 64) -> Planner:
    """The rehearsal engine's own player."""

    def plan(screen: Canvas, scheduled: tuple[PlayMove, ...]) -> tuple[PlayMove, ...]:
        listed = ";".join(move.encoded() for move in scheduled) or "none"
        text = f"Goal: play\nAlready scheduled: {listed}\nGive the actions that follow."
        return moves_in(reply_to(encoded_frame(screen), text, max_tokens=max_tokens))

    return plan


def moves_in(reply: str) -> tuple[PlayMove, ...]:
    """A reply's moves."""
    return scheduled_moves(f"Already scheduled: {reply}")


def random_planner(seed: int) -> Planner:
    """Taps and swipes anywhere."""
    dice = np.random.default_rng(seed)

    def plan(screen: Canvas, scheduled: tuple[PlayMove, ...]) -> tuple[PlayMove, ...]:
        moves: list[PlayMove] = []
        for _ in range(int(dice.integers(1, MAX_MOVES + 1))):
            x, y, to_x, to_y = (int(v) for v in dice.integers(0, 1000, 4))
            moves.append(TapAt(x, y) if dice.random() < 0.6 else SwipeTo(x, y, to_x, to_y))
        return tuple(moves)

    return plan


@attrs.frozen
class Played:
    """How an episode ended."""

    score: float
    plans: int
    actions: int
    dropped: int
    waited_seconds: float


def _seconds_of(move: PlayMove) -> float:
    if isinstance(move, WaitFor):
        return move.tenths / 10
    return PAUSE_SECONDS + (0.2 if isinstance(move, SwipeTo) else 0.0)


def do_move(app: App, now: float, move: PlayMove, screen: Canvas | None = None) -> None:
    """Touch the app as the move says, at pixels of its present screen (drawn anew if it is not given)."""
    height, width = (app.draw(now) if screen is None else screen).shape[:2]

    def pixel(x: int, y: int) -> tuple[int, int]:
        return (int((x + 0.5) * width / 1000), int((y + 0.5) * height / 1000))

    if isinstance(move, TapAt):
        x, y = pixel(move.x, move.y)
        app.touch(now, Touch(TouchPhase.DOWN, x, y))
        app.touch(now, Touch(TouchPhase.UP, x, y))
    elif isinstance(move, SwipeTo):
        app.touch(now, Touch(TouchPhase.DOWN, *pixel(move.x, move.y)))
        app.touch(now + 0.2, Touch(TouchPhase.UP, *pixel(move.to_x, move.to_y)))


def _target_of(screen: Canvas, move: PlayMove) -> Canvas | None:
    """A copy of the square of 80 units round a tap's point."""
    if not isinstance(move, TapAt):
        return None
    height, width = screen.shape[:2]
    half = round(40 * min(width, height) / 720)
    x, y = (move.x * width) // 1000, (move.y * height) // 1000
    return screen[max(0, y - half) : y + half, max(0, x - half) : x + half].copy()


def _looks_same(first: Canvas, second: Canvas) -> bool:
    return first.shape == second.shape and float(cv2.absdiff(first, second).mean()) < 8.0


def play(
    factory: AppFactory,
    planner: Planner,
    *,
    seed: int,
    latency_seconds: float,
    episode_seconds: float = 60.0,
    overlap: bool = False,
    size: tuple[int, int] = (720, 1280),
) -> Played:
    """Play one episode; with `overlap` the next plan is asked for early enough to arrive as the present one ends."""
    app = factory(seed=seed, width=size[0], height=size[1], now=0.0)
    now, plans, actions, dropped, waited = 0.0, 0, 0, 0, 0.0
    queue: list[tuple[PlayMove, Canvas | None]] = []
    """The moves to do, each with how its target looked when it was planned."""
    arriving: tuple[float, list[tuple[PlayMove, Canvas | None]]] | None = None
    while now < episode_seconds:
        if arriving is not None and arriving[0] <= now + 1e-9:
            queue += arriving[1]
            arriving = None
        if arriving is None and (
            not queue or (overlap and sum(_seconds_of(m) for m, _ in queue) <= latency_seconds + PAUSE_SECONDS)
        ):
            screen = app.draw(now)
            moves = planner(screen, tuple(move for move, _ in queue))
            arriving = (now + latency_seconds, [(move, _target_of(screen, move)) for move in moves])
            plans += 1
            continue
        if not queue:
            assert arriving is not None
            waited += arriving[0] - now
            now = arriving[0]
            continue
        move, planned = queue.pop(0)
        screen = app.draw(now)
        seen = _target_of(screen, move)
        if planned is not None and seen is not None and not _looks_same(planned, seen):
            queue.clear()  # as a bot does: what follows was planned for another screen
            dropped += 1
            continue
        do_move(app, now, move, screen)
        actions += 1
        now += _seconds_of(move)
    return Played(app.truth(now)["score"], plans, actions, dropped, waited)


def picture_of(screen: Canvas, *, max_side: int = 1280, quality: int = 85) -> Picture:
    """What the engine's player sees of a screen."""
    return Picture.decoded(encoded_frame(screen, max_side=max_side, quality=quality))
