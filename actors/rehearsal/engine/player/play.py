"""One picture and the text with it in, one reply in the compact grammar out."""

from actors.rehearsal.engine.player.battler import plan_battle, read_battle
from actors.rehearsal.engine.player.errands import plan_client, read_client
from actors.rehearsal.engine.player.merge import plan_puzzle, read_puzzle
from actors.rehearsal.engine.player.moves import PlayMove, WaitFor, reply_for, scheduled_moves
from actors.rehearsal.engine.player.picture import Picture
from actors.rehearsal.engine.player.recognise import app_shown

UNKNOWN_SCREEN = (WaitFor(5),)
"""What is done about a picture of none of the bundled apps: nothing, for half a second."""


def reply_to(image: bytes, text: str, *, max_tokens: int) -> str:
    """The next actions for the newest screenshot.

    Args:
        image: JPEG or PNG of the screen, at any size.
        text: The prompt's text; its last `Already scheduled: ...` names the actions that will have been done before.
        max_tokens: Upper bound of the reply's length, a character a token.

    Raises:
        UndecodableImage: `image` cannot be read.
    """
    return reply_for(moves_for(Picture.decoded(image), scheduled_moves(text)), max_tokens)


def moves_for(picture: Picture, scheduled: tuple[PlayMove, ...]) -> tuple[PlayMove, ...]:
    """The next moves for a picture, to be done after the scheduled ones."""
    match app_shown(picture):
        case "battler":
            return plan_battle(picture, read_battle(picture), scheduled)
        case "merge":
            return plan_puzzle(picture, read_puzzle(picture), scheduled)
        case "errands":
            return plan_client(picture, read_client(picture), scheduled)
        case _:
            return UNKNOWN_SCREEN
