"""From an episode's steps to rows. Pure: what it reads are the inputs and outputs that a replay would see as well."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from actors.results.summary import EpisodeSummary
from policies.criteria import Outcome
from policies.perception import Percept
from policies.planner import PlanFailed, PlanReply, PlanRequest
from policies.step import CommandKind, Note, StepInput, StepOutput
from policies.tally import Tally

Row = dict[str, Any]
"""One row; `t` names its table, the other keys its columns. What is not known is left out."""

MAX_TEXT = 300  # characters of a reason or a cause: enough for the first line of a stack

MAX_UNSETTLED = 16  # actions whose effect is awaited; a bot that acts at random never looks for one


@attrs.frozen
class EpisodeIds:
    """What every row of an episode begins with."""

    episode_id: str
    phone: str
    app: str
    bot: str


@attrs.define
class _Command:
    """A command that is out, or whose effect is awaited."""

    row: Row
    planned: bool
    dispatch_seconds: float | None = None


@attrs.define
class EpisodeRows:
    """One episode's rows in the making: actions wait for their results, and plans for their answers."""

    ids: EpisodeIds
    _about: dict[str, str] = attrs.field(init=False)
    started_ms: int | None = None
    _out: dict[int, _Command] = attrs.field(factory=dict, alias="_out")  # by token
    _unsettled: list[_Command] = attrs.field(factory=list, alias="_unsettled")
    _request: PlanRequest | None = attrs.field(default=None, alias="_request")
    _voided: int = attrs.field(default=0, alias="_voided")

    def __attrs_post_init__(self) -> None:
        self._about = attrs.asdict(self.ids)

    def step(self, given: StepInput, output: StepOutput, *, at_ms: int, decided_at: float) -> list[Row]:
        """The rows that are complete with this step.

        Args:
            given: What went in.
            output: What came out.
            at_ms: Epoch milliseconds of the decision.
            decided_at: The run's clock after it.
        """
        if self.started_ms is None:
            self.started_ms = at_ms
        rows = [*self._results(given), *self._notes(given, output, at_ms), *self._plans(given, output, at_ms)]
        if given.lost:
            rows += self._lose()
            rows.append(self._row("faults", at_ms, fault="phone_lost", cause="the phone was away"))
        if given.percept is not None:
            rows.append(self._step_row(given, given.percept, output, at_ms, decided_at))
        command = output.command
        if command is not None:
            action = "restart_app" if command.action is None else type(command.action).__name__.lower()
            rule = command.why if command.kind in (CommandKind.REFLEX, CommandKind.RECOVERY) else None
            row = self._row("actions", at_ms, step=given.step, kind=command.kind.value, action=action, rule=rule)
            is_planned = command.kind in (CommandKind.PLANNED, CommandKind.RETRY)
            self._out[command.token] = _Command(row, is_planned)
        if output.request is not None:
            self._request = output.request
        return rows

    def end(
        self,
        tally: Tally,
        *,
        at_ms: int,
        about: Mapping[str, Any],
        faults: Iterable[Mapping[str, str]],
    ) -> list[Row]:
        """What is left, and the episode's own row.

        Args:
            tally: What the episode counted.
            at_ms: Epoch milliseconds of its end.
            about: Columns of `episodes` that the tally does not know.
            faults: Of the app: kind, process, cause.
        """
        rows = self._lose()
        orphans = tally.voided - self._voided  # those whose predecessor was not done have no note of their own
        rows += [self._undone("voided", "predecessor", at_ms) for _ in range(max(0, orphans))]
        if self._request is not None:
            rows.append(self._plan_row(self._request, at_ms, "aborted", "ended"))
            self._request = None
        for fault in faults:
            rows.append(
                self._row("faults", at_ms, fault=fault["kind"], process=fault["process"] or None, cause=fault["cause"])
            )
        stale = tally.stale_age + tally.stale_target + tally.stale_geometry
        rows.append(
            self._row(
                "episodes",
                at_ms,
                started_ms=self.started_ms if self.started_ms is not None else at_ms,
                steps=tally.steps,
                seconds=round(tally.active_seconds, 3),
                pauses=tally.pauses,
                paused_seconds=round(tally.paused_seconds, 3),
                stall_seconds=round(min(tally.stall_seconds, tally.active_seconds), 3),
                reflex_actions=tally.reflex,
                planned_actions=tally.planned,
                retried_actions=tally.retried,
                recovery_actions=tally.recovered,
                failed_actions=tally.act_errors,
                stale_actions=stale,
                voided_actions=tally.voided,
                late_actions=tally.late,
                off_screen_actions=tally.off_screen,
                no_effect_actions=tally.no_effect,
                effects_seen=tally.effects_seen,
                plans_requested=tally.plans_requested,
                plans_completed=tally.plans_completed,
                plans_failed=tally.plans_failed,
                plans_aborted=tally.plans_aborted,
                prompt_tokens=tally.prompt_tokens,
                cached_tokens=tally.cached_tokens,
                output_tokens=tally.output_tokens,
                **about,
            )
        )
        return rows

    # --- parts

    def _row(self, table: str, at_ms: int, **columns: Any) -> Row:
        return {**row_for(table, at_ms, columns), **self._about}

    def _undone(self, outcome: str, reason: str | None, at_ms: int, step: int | None = None) -> Row:
        """An action that was planned and not done."""
        return self._row("actions", at_ms, step=step, kind="planned", outcome=outcome, reason=reason)

    def _step_row(self, given: StepInput, percept: Percept, output: StepOutput, at_ms: int, decided_at: float) -> Row:
        return self._row(
            "steps",
            at_ms,
            step=given.step,
            frame=percept.seq,
            capture_ms=_ms(percept.received_at - percept.requested_at),
            wait_ms=_ms(given.now - percept.received_at),
            decide_ms=_ms(decided_at - given.now),
            latency_ms=_ms(decided_at - percept.requested_at),
            decision=output.command.kind.value if output.command is not None else "none",
            score=given.score,
        )

    def _results(self, given: StepInput) -> Iterator[Row]:
        for result in given.results:
            command = self._out.pop(result.token, None)
            if command is None:
                continue
            command.dispatch_seconds = result.done_at - result.sent_at
            command.row["dispatch_ms"] = _ms(command.dispatch_seconds)
            if result.error is not None:
                yield {**command.row, "outcome": "failed", "reason": _told(result.error)}
            elif command.planned:
                self._unsettled.append(command)
                if len(self._unsettled) > MAX_UNSETTLED:
                    yield {**self._unsettled.pop(0).row, "outcome": "executed"}
            else:
                yield {**command.row, "outcome": "executed"}

    def _notes(self, given: StepInput, output: StepOutput, at_ms: int) -> Iterator[Row]:
        for note in output.notes:
            fields = note.fields
            match note.event:
                case "policies.action.settled":
                    row = self._settled(fields)
                    if row is not None:
                        yield row
                case "policies.plan.stale":
                    is_reflex = fields["why"] == "reflex"  # counted as voided, as the tally does
                    self._voided += is_reflex
                    yield self._undone("voided" if is_reflex else "stale", str(fields["why"]), at_ms, given.step)
                case "policies.plan.voided":
                    count = int(fields["actions"] or 0)
                    self._voided += count
                    yield from (self._undone("voided", str(fields["why"]), at_ms, given.step) for _ in range(count))
                case "policies.plan.late":
                    yield from (self._undone("late", None, at_ms, given.step) for _ in range(int(fields["late"] or 0)))
                case "policies.plan.off_screen":
                    count = int(fields["dropped"] or 0)
                    yield from (self._undone("off_screen", None, at_ms, given.step) for _ in range(count))
                case "policies.human.needed":
                    yield self._row("faults", at_ms, fault="needs_human", cause=str(fields["why"]))

    def _settled(self, ledger: Mapping[str, Any]) -> Row | None:
        """The action whose effect was judged; the time that its dispatch took, to the last digit, tells which it is."""
        for command in self._unsettled:
            if command.dispatch_seconds == ledger["dispatch_seconds"]:
                break
        else:
            return None
        self._unsettled.remove(command)
        outcome = "effective" if ledger["effect_seconds"] is not None else "no_effect"
        parts = ("capture", "queue", "prefill", "decode", "effect")
        times = {f"{part}_ms": _ms(ledger[f"{part}_seconds"]) for part in parts}
        return {**command.row, **{k: v for k, v in times.items() if v is not None}, "outcome": outcome}

    def _plans(self, given: StepInput, output: StepOutput, at_ms: int) -> Iterator[Row]:
        request, plan = self._request, given.plan
        if request is None:
            return
        if plan is not None and plan.request_id == request.request_id:
            self._request = None
            yield self._answered(request, plan, output.notes, given.now, at_ms)
        elif output.abort == request.request_id:
            self._request = None
            why = next((str(n.fields["why"]) for n in output.notes if n.event == "policies.plan.voided"), "voided")
            yield self._plan_row(request, at_ms, "aborted", why)

    def _plan_row(self, request: PlanRequest, at_ms: int, outcome: str, failure: str | None, **more: Any) -> Row:
        return self._row(
            "plans", at_ms, request_id=request.request_id, why=request.why, outcome=outcome, failure=failure, **more
        )

    def _answered(
        self, request: PlanRequest, plan: PlanReply | PlanFailed, notes: Iterable[Note], now: float, at_ms: int
    ) -> Row:
        latency = _ms(now - request.asked_at)
        if isinstance(plan, PlanFailed):
            return self._plan_row(request, at_ms, "failed", plan.kind.value, latency_ms=latency)
        said = {note.event: note.fields for note in notes}
        failed = said.get("policies.plan.failed")  # it came, and nobody could read it
        joined = said.get("policies.plan.joined", {})
        return self._plan_row(
            request,
            at_ms,
            "failed" if failed is not None else "completed",
            str(failed["kind"]) if failed is not None else None,
            latency_ms=latency,
            queue_ms=_ms(plan.queue_seconds),
            prefill_ms=_ms(plan.prefill_seconds),
            ttft_ms=_ms(plan.queue_seconds + plan.prefill_seconds),
            decode_ms=_ms(plan.decode_seconds),
            prompt_tokens=plan.prompt_tokens,
            cached_tokens=plan.cached_tokens,
            output_tokens=plan.output_tokens,
            actions=joined.get("actions"),
            late_actions=said.get("policies.plan.late", {}).get("late", 0),
            off_screen_actions=said.get("policies.plan.off_screen", {}).get("dropped", 0),
            engine=plan.engine or None,
            model=plan.model or None,
            routing=plan.why or None,
        )

    def _lose(self) -> list[Row]:
        """What has no result any more: it was sent, or done, and nobody saw what came of it."""
        rows = [{**command.row, "outcome": "lost"} for command in self._out.values()]
        rows += [{**command.row, "outcome": "executed"} for command in self._unsettled]
        self._out.clear()
        self._unsettled.clear()
        return rows


def columns_of(summary: EpisodeSummary) -> dict[str, Any]:
    """What an episode's summary knows and its tally does not, as columns of `episodes`."""
    return {
        "seed": summary.seed,
        "outcome": summary.outcome.value,
        "reason": summary.reason,
        "is_success": int(summary.outcome is Outcome.SUCCEEDED),
        "score": summary.score,
        "phone_losses": summary.phone_lost,
        "bad_frames": sum(summary.bad_frames.values()),
        "engine_list": ",".join(summary.engines) or None,
        "model_list": ",".join(summary.models) or None,
        "is_replayable": summary.replayable,
    }


def row_for(table: str, at_ms: int, columns: Mapping[str, Any]) -> Row:
    """A row of what is known."""
    known = {name: told for name, value in columns.items() if (told := _told(value)) is not None}
    return {"t": table, "at_ms": at_ms, **known}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def _told(value: Any) -> Any:
    """Texts of phones and engines are data: one bounded line, and nothing that a terminal would obey. No NaN either."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, str) or (value.isprintable() and len(value) <= MAX_TEXT):
        return value
    return " ".join("".join(c if c.isprintable() else " " for c in value[: 2 * MAX_TEXT]).split())[:MAX_TEXT]
