"""What is kept of the frames that plans were made on: to verify their actions, and to say where the time went."""

from collections.abc import Collection

import attrs

from policies.effect import Effect, PendingEffect
from policies.perception import Percept
from policies.planner import PlanReply
from policies.thumbnail import Thumbnail


@attrs.define
class _Entry:
    percept: Percept
    reply: PlanReply | None = None


@attrs.define
class PlannedFrames:
    """By `Frame.seq`: the percept that a plan was asked for on, and the reply."""

    _entries: dict[int, _Entry] = attrs.field(factory=dict, alias="_entries")

    def asked(self, percept: Percept) -> None:
        """A plan was asked for on this frame."""
        self._entries[percept.seq] = _Entry(percept)

    def answered(self, seq: int, reply: PlanReply) -> None:
        """The plan has come."""
        if seq in self._entries:
            self._entries[seq].reply = reply

    def thumbnail(self, seq: int) -> Thumbnail | None:
        """The frame as it was planned on; None once forgotten."""
        entry = self._entries.get(seq)
        return entry.percept.thumbnail if entry else None

    def keep_only(self, seqs: Collection[int]) -> None:
        """Forget every other frame."""
        for seq in [s for s in self._entries if s not in seqs]:
            del self._entries[seq]

    def ledger_for(
        self, pending: PendingEffect, verdict: Effect, percept: Percept
    ) -> dict[str, str | float | int | None]:
        """Where the time of one settled action went, in seconds; None where it is not known.

        Returns:
            seq, effect, capture_seconds, queue_seconds, prefill_seconds, decode_seconds, dispatch_seconds,
            effect_seconds.
        """
        entry = self._entries.get(pending.planned.planned_on)
        seen, reply = (entry.percept, entry.reply) if entry else (None, None)
        return {
            "seq": pending.planned.seq,
            "effect": verdict.value,
            "capture_seconds": seen.received_at - seen.requested_at if seen else None,
            "queue_seconds": reply.queue_seconds if reply else None,
            "prefill_seconds": reply.prefill_seconds if reply else None,
            "decode_seconds": reply.decode_seconds if reply else None,
            "dispatch_seconds": pending.dispatch_seconds,
            "effect_seconds": max(0.0, percept.received_at - pending.sent_at) if verdict is Effect.SEEN else None,
        }
