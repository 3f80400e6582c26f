"""Distinct screens of an app and how one leads to another, by perceptual hashes of the small copies in the records.

The hash is a difference hash (dHash): each bit says whether a cell of a 9 x 8 grey grid is darker than its right
neighbour, so it survives compression, brightness and small changes, and not another layout.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs
import cv2
import numpy as np

from policies.thumbnail import Thumbnail

COLUMNS, ROWS = 9, 8
MAX_SCREENS = 4096  # that are told apart; with so many, it takes 0.3 ms to say which one a frame shows
MAX_DISTANCE = 10  # of 64 bits, the usual bound for near-duplicates; a minute of a bundled game is 9 to 48 screens


def screen_hash(thumbnail: Thumbnail) -> int:
    """64 bits that are alike for screens that look alike."""
    grey = cv2.cvtColor(np.ascontiguousarray(thumbnail.cells), cv2.COLOR_BGR2GRAY)
    small = cv2.resize(grey, (COLUMNS, ROWS), interpolation=cv2.INTER_AREA).astype(np.int16)
    bits = (small[:, 1:] > small[:, :-1]).ravel()
    return int("".join("1" if bit else "0" for bit in bits), 2)


def hash_of(text: str) -> int:
    """The inverse of writing a hash as 16 hex digits."""
    return int(text, 16)


def distance(one: int, other: int) -> int:
    """In how many bits two hashes differ."""
    return (one ^ other).bit_count()


@attrs.define
class Screens:
    """Screens that are told apart; each is known by the first hash that was seen of it."""

    known: list[int] = attrs.field(factory=list)
    most: int = MAX_SCREENS
    """With so many known, none is added."""

    def place(self, seen: int) -> int | None:
        """The screen that a hash belongs to; a new one where none is near. None: there is no room for a new one."""
        best, least = seen, MAX_DISTANCE + 1
        for one in self.known:  # a plain loop: it is done for every frame
            bits = (one ^ seen).bit_count()
            if bits < least:
                best, least = one, bits
        if least <= MAX_DISTANCE:
            return best
        if len(self.known) >= self.most:
            return None
        self.known.append(seen)
        return seen


@attrs.frozen
class Coverage:
    """What was seen of an app."""

    screens: Mapping[int, int]
    """Screen → frames."""
    transitions: Mapping[tuple[int, str, int], int]
    """(screen, kind of action, screen after it) → times."""
    is_whole: bool = True
    """False: there were more screens than are told apart, and what is counted is the least that there was."""

    def new_since(self, before: "Coverage") -> tuple[tuple[int, ...], tuple[tuple[int, str, int], ...]]:
        """Screens and transitions that an earlier run had not."""
        known = Screens(list(before.screens), most=0)
        names = {screen: known.place(screen) for screen in self.screens}
        fresh = tuple(screen for screen, name in names.items() if name is None)
        steps = tuple(
            one for one in self.transitions if (names[one[0]], one[1], names[one[2]]) not in before.transitions
        )
        return fresh, steps


def coverage_of(episodes: Iterable[Iterable[tuple[Thumbnail | None, str]]], most: int = MAX_SCREENS) -> Coverage:
    """Coverage of recorded steps.

    Args:
        episodes: For each one its steps: the small copy of the frame, where there is one, and the kind of the action
            that was done on it, empty where none was.
        most: Screens that are told apart; frames of further ones are not counted.
    """
    screens, counts = Screens(most=most), Counter[int]()
    transitions = Counter[tuple[int, str, int]]()
    is_whole = True
    for steps in episodes:
        here: int | None = None
        done = ""
        for thumbnail, action in steps:
            if thumbnail is not None:
                now = screens.place(screen_hash(thumbnail))
                if now is None:
                    is_whole = False
                else:
                    counts[now] += 1
                    if here is not None and done:
                        transitions[here, done, now] += 1
                done = ""
                here = now
            done = action or done
    return Coverage(dict(counts), dict(transitions), is_whole)
