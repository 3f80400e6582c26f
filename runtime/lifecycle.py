"""The states of an actor, and the one table of legal transitions between them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where an actor stands in its life."""

    STARTING = "starting"
    """Waiting for its turn, or started and not ready yet."""
    RUNNING = "running"
    """Ready."""
    DRAINING = "draining"
    """Asked to finish; it may still be working."""
    STOPPED = "stopped"
    """Ended as it should: it finished, or was asked to."""
    FAILED = "failed"
    """Ended as it should not. It may be waiting for its restart."""
    QUARANTINED = "quarantined"
    """Failed too often. It stays down until somebody releases it; the others go on."""


TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.STARTING: frozenset({State.RUNNING, State.DRAINING, State.STOPPED, State.FAILED}),
        State.RUNNING: frozenset({State.DRAINING, State.STOPPED, State.FAILED}),
        State.DRAINING: frozenset({State.STOPPED, State.FAILED}),
        State.STOPPED: frozenset({State.STARTING, State.QUARANTINED}),  # a permanent actor may end well too often
        State.FAILED: frozenset({State.STARTING, State.STOPPED, State.QUARANTINED}),
        State.QUARANTINED: frozenset({State.STARTING, State.STOPPED}),
    }
)

ALIVE = frozenset({State.STARTING, State.RUNNING, State.DRAINING})
"""States in which code of the actor may be running."""


class IllegalTransition(Exception):
    """An actor was moved to a state that its present state does not lead to: a bug of the mover."""


def advance(present: State, to: State) -> State:
    """The state `to`, if the table allows it.

    Raises:
        IllegalTransition: the table has no such step; staying where one is counts as none.
    """
    if to not in TRANSITIONS[present]:
        legal = ", ".join(sorted(TRANSITIONS[present]))
        raise IllegalTransition(f"{present} does not lead to {to}; it leads to {legal}")
    return to
