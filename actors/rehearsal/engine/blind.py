"""Answers that nobody has looked for: random plans for load tests, and garbage for bad days."""

from random import Random

from actors.rehearsal.engine.player.moves import MAX_MOVES, PlayMove, SwipeTo, TapAt, WaitFor, reply_for

_GARBAGE = (
    "I think we should tap the red button.",
    "T9999,12;;",
    '{"action": "tap", "x":',
    "S500,500",
    "",
    "```\ntap 500 500\n```",
    "\ufffd\ufffd\ufffd",
)


def blind_reply(dice: Random, max_tokens: int) -> str:
    """A valid plan of 1 to 5 random taps, swipes and waits that fits in `max_tokens` characters."""
    moves: list[PlayMove] = []
    for _ in range(dice.randint(1, MAX_MOVES)):
        kind = dice.random()
        x, y, to_x, to_y = (dice.randrange(1000) for _ in range(4))
        if kind < 0.6:
            moves.append(TapAt(x, y))
        elif kind < 0.9:
            moves.append(SwipeTo(x, y, to_x, to_y))
        else:
            moves.append(WaitFor(dice.randint(1, 5)))
    return reply_for(tuple(moves), max_tokens)


def filled_reply(dice: Random, max_tokens: int) -> str:
    """Random taps of exactly `max_tokens` characters, the last one cut short: all answers take equally long."""
    taps = (f"T{dice.randrange(1000):03},{dice.randrange(1000):03}" for _ in range(max_tokens // 9 + 1))
    return ";".join(taps)[:max_tokens]


def garbage_reply(dice: Random) -> str:
    """Something that no plan looks like."""
    return dice.choice(_GARBAGE)
