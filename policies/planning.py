"""What is planned in one episode: the queue, the request that is out, and what the model is told of it all."""

from collections.abc import Iterable
from enum import StrEnum

import attrs

from inference.messages import TextPart
from policies import overlap, planner
from policies.action import Finish, PlannedAction
from policies.geometry import Geometry
from policies.grammar import ReplyFailure
from policies.history import History
from policies.ledger import PlannedFrames
from policies.perception import Percept
from policies.planner import PlanFailed, PlanFailureKind, PlanReply, PlanRequest
from policies.reply import parse_reply
from policies.step import Decision, EpisodeSettings
from policies.tally import Tally
from runtime.ids import EpisodeId

RETRY_PLAN_SECONDS = 1.0  # a broken engine is asked again at this pace, not at that of frames
MAX_DROPPED = 20  # a plan has fewer actions


class Dropped(StrEnum):
    """Why a planned action was not done, in one word for people."""

    SKIPPED = "skipped"
    """It was overtaken, or what it followed was not done."""
    STALE = "stale"


@attrs.define
class Planning:
    """The planned actions of one episode, and the requests for them. At most one request is out."""

    settings: EpisodeSettings
    episode: EpisodeId
    tally: Tally
    queue: tuple[PlannedAction, ...] = ()
    request: PlanRequest | None = None
    finish: Finish | None = None
    """What the last plan ended with, until it is judged."""
    note_to_model: str = ""
    """Goes into the next request."""
    ask_why: str | None = None
    """Why the next request will be made, where it is something else than an empty or short queue."""
    ask_not_before: float = 0.0
    dropped: tuple[tuple[PlannedAction, Dropped], ...] = ()
    """Of the newest plan: what was not done. To be shown; nothing is decided on it."""
    history: History = attrs.field(init=False)
    frames: PlannedFrames = attrs.field(init=False, factory=PlannedFrames)
    _next_seq: int = attrs.field(init=False, default=0)
    _requests: int = attrs.field(init=False, default=0)
    _executed: list[PlannedAction] = attrs.field(init=False, factory=list)
    """Sent since the request that is out was asked for."""
    _latencies: list[float] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.history = History(self.settings.profile)

    def take_next(self) -> PlannedAction:
        """Take the first action off the queue, which is not empty."""
        planned, self.queue = self.queue[0], self.queue[1:]
        return planned

    def sent(self, planned: PlannedAction) -> None:
        """An action is being done: a reply that is under way will be joined behind it."""
        if self.request is not None:
            self._executed.append(planned)

    def drop(self, planned: PlannedAction, why: Dropped) -> None:
        """An action of the queue will not be done."""
        self.dropped = (*self.dropped, (planned, why))[-MAX_DROPPED:]

    def take_plan(self, plan: PlanReply | PlanFailed | None, now: float, decision: Decision) -> None:
        """A reply has come, or none will; one to a request that was aborted is ignored."""
        request = self.request
        if plan is None or request is None or plan.request_id != request.request_id:
            return
        self.request = None
        executed, self._executed = self._executed, []
        if isinstance(plan, PlanFailed):
            self._failed(plan, now, decision)
            return
        latency = now - request.asked_at
        self._latencies = [*self._latencies, latency][-overlap.LATENCY_WINDOW :]
        self.tally.output_tokens += plan.output_tokens
        self.tally.prompt_tokens += plan.prompt_tokens
        self.tally.cached_tokens += plan.cached_tokens
        reply = parse_reply(plan.text, self.settings.profile, cut=plan.cut)
        if isinstance(reply, ReplyFailure):
            message = f"{reply.reason}: {reply.text!r}"
            self._failed(PlanFailed(plan.request_id, PlanFailureKind.GARBLED, message), now, decision)
            return
        self.tally.plans_completed += 1
        self.tally.thinking_characters += len(reply.thinking)
        placed = planner.place(reply, request, self.settings.profile)
        if placed.off_screen:
            self.tally.off_screen += placed.off_screen
            self.note_to_model = "an action pointed off the screen and was not done"
            decision.note("policies.plan.off_screen", request_id=request.request_id, dropped=placed.off_screen)
        self._join(plan, request, placed, executed, decision)
        self.finish = placed.finish
        decision.note(
            "policies.plan.joined",
            request_id=request.request_id,
            why=request.why,
            actions=len(placed.actions),
            latency_seconds=latency,
            output_tokens=plan.output_tokens,
            prompt_tokens=plan.prompt_tokens,
            cached_tokens=plan.cached_tokens,
            engine=plan.engine,
            text=plan.text[:120],
        )

    def _join(
        self,
        plan: PlanReply,
        request: PlanRequest,
        placed: planner.Placed,
        executed: list[PlannedAction],
        decision: Decision,
    ) -> None:
        seen = request.current
        joined = overlap.join(
            self.queue,
            placed.actions,
            executed,
            base_seq=request.base_seq,
            short_side=min(seen.width, seen.height),
            settings=self.settings.overlap,
        )
        if joined.late:
            self.tally.late += joined.late
            decision.note(
                "policies.plan.late", request_id=request.request_id, late=joined.late, diverged=joined.diverged
            )
        for planned in self.queue:
            if planned.seq >= request.base_seq:
                self.history.close_action(planned.seq, "replaced")
        self.dropped = tuple((planned, Dropped.SKIPPED) for planned in placed.actions[: joined.late])
        self.frames.answered(seen.seq, plan)
        query = request.turns[-1].parts[-1]
        assert isinstance(query, TextPart), "every layout ends with the query"
        self.history.open_plan(
            self.described(placed.actions, seen),
            (planned.seq for planned in placed.actions[joined.late :]),
            frame_seq=seen.seq,
            asked=query.text,
            said=plan.text,
        )
        self.queue = joined.queue
        self._next_seq = max(self._next_seq, request.base_seq + len(placed.actions))

    def _failed(self, failed: PlanFailed, now: float, decision: Decision) -> None:
        self.tally.plans_failed += 1
        if failed.kind is not PlanFailureKind.LATE:
            self.ask_not_before = now + RETRY_PLAN_SECONDS
        decision.note(
            "policies.plan.failed", request_id=failed.request_id, kind=failed.kind.value, error=failed.message
        )

    def ask(
        self,
        percept: Percept,
        now: float,
        *,
        busy_seconds: float,
        under_way: Iterable[PlannedAction],
        reflex_epoch: int,
        decision: Decision,
    ) -> None:
        """Ask for the next chunk if it is time to.

        Args:
            percept: The newest frame's.
            now: The run's clock.
            busy_seconds: How long the action that executes now still takes; 0 or less when none does.
            under_way: Actions that are done but that the frame cannot show yet: the model must not plan them again.
            reflex_epoch: Number of plan-voiding reflexes so far.
            decision: Takes the request.
        """
        settings = self.settings
        why = overlap.should_ask(
            self.queue,
            busy_seconds,
            self._latencies,
            in_flight=self.request is not None,
            settings=settings.overlap,
        )
        if why is None or now < self.ask_not_before:
            return
        why, self.ask_why = self.ask_why or why, None
        note, self.note_to_model = self.note_to_model, ""
        scheduled = self.described((*under_way, *self.queue), percept)
        query = planner.query_text(settings.profile, goal=settings.goal, scheduled=scheduled, note=note)
        # A model that is told what is scheduled plans what follows it; one that is not, plans from the frame on.
        follows = "{scheduled}" in settings.profile.query
        self.request = decision.request = PlanRequest(
            request_id=f"{self.episode}-p{self._requests}",
            asked_at=now,
            why=why,
            turns=planner.turns_for(
                settings.profile,
                history=self.history.lines,
                previous_seq=self.history.previous_seq,
                current_seq=percept.seq,
                query=query,
                window=self.history.window,
            ),
            current=percept,
            base_seq=self._next_seq if follows or not self.queue else self.queue[0].seq,
            reflex_epoch=reflex_epoch,
        )
        self._requests += 1
        self._executed = []
        self.frames.asked(percept)
        self.tally.plans_requested += 1

    def void_all(self, decision: Decision, why: str) -> None:
        """Nothing that was planned is done any more, and a plan under way is not wanted."""
        for planned in self.queue:
            self.history.close_action(planned.seq, "not done")
        self.tally.voided += len(self.queue)
        is_out = self.request is not None
        if self.queue or is_out:
            decision.note("policies.plan.voided", why=why, actions=len(self.queue), request=is_out)
        self.queue = ()
        self.finish = None
        if self.request is not None:
            self.tally.plans_aborted += 1
            decision.abort = self.request.request_id
            self.request = None
            self._executed = []

    def described(self, actions: Iterable[PlannedAction], percept: Percept) -> str:
        """Actions as the model would write them on this screen."""
        geometry = Geometry(percept.width, percept.height, percept.rotation)
        return planner.describe(tuple(actions), self.settings.profile, geometry)

    def forget_frames(self, still_needed: Iterable[PlannedAction]) -> None:
        """Keep the frames of what is queued, asked for, or `still_needed`."""
        wanted = {planned.planned_on for planned in (*self.queue, *still_needed)}
        if self.request is not None:
            wanted.add(self.request.current.seq)
        self.frames.keep_only(wanted)
