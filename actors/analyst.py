"""One session of the assistant: its questions, its events in order, and whichever connection it has at the moment."""

from datetime import UTC, datetime
from typing import Any, Protocol

import attrs
import trio

from actors.analyst_events import KeptEvents
from actors.analyst_limits import Admission, Admitted, Turned
from actors.analyst_line import NORMAL, LineClosed, Wire
from actors.answering import Answering
from actors.question_history import QuestionHistory
from actors.question_metering import NO_TOKENS, usage_in
from actors.token_store import TokenRecord
from inference.messages import Usage
from inference.metering import TokenBucket
from runtime.telemetry import counter, emit, histogram
from sqlassist.messages import Asker, Event, Question, Refusal, Stage, Verb
from sqlassist.protocol import Ask, Cancel, Hello, HistoryRequest, Leave, Malformed, Ping, Review, decode
from sqlassist.protocol_replies import (
    MAX_EVENT_BYTES,
    ErrorMessage,
    EventMessage,
    HistoryMessage,
    Pong,
    Reply,
    Reviewed,
    encode,
)

REMEMBERED_IDS = 200  # of questions that are over: an id is used once in a session
REVIEW_SECONDS = 20.0  # a review is written to a file

_QUESTIONS = counter("assistant_ended_questions_total", "Questions by how they ended.", ("tenant", "stage"))
_SECONDS = histogram("assistant_question_seconds", "From a question to its end.", ("stage",))
_INTENT = histogram("assistant_intent_seconds", "From a question to the event with its decided intent.")
_TOKENS = counter("assistant_used_tokens_total", "Tokens that questions used.", ("tenant", "kind"))


class EventTooLarge(ValueError):
    """An event has more bytes than a client must be able to take: fewer rows have to be asked for."""


class Ports(Protocol):
    """What a session needs of the desk that it belongs to."""

    @property
    def answering(self) -> Answering:
        """Answers its questions."""
        ...

    @property
    def admission(self) -> Admission:
        """Says whether a question may begin."""
        ...

    @property
    def history(self) -> QuestionHistory:
        """Takes down what was asked."""
        ...

    @property
    def is_draining(self) -> bool:
        """No new question begins."""
        ...

    def start(self, analyst: "Analyst", running: "Running") -> None:
        """Run `analyst.answer(running)` in a task that outlives the connection."""
        ...


@attrs.define(eq=False)
class Running:
    """A question that is being answered."""

    question: Question
    admitted: Admitted
    began: float
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    why: Event | None = None
    """The last event, if it was ended by us."""
    last: Event | None = None
    """The last event, once there was one."""
    route: str = ""

    def end(self, why: Event) -> None:
        """Stop answering; the first reason stays."""
        if self.why is None:
            self.why = why
        self.scope.cancel()


class Analyst:
    """One session. A connection attaches to it and may be replaced by a later one; its questions go on meanwhile.

    Args:
        id: Its name, which nobody can guess.
        record: The token that it was begun with.
        ports: The desk.
    """

    __slots__ = (
        "_kept",
        "_messages",
        "_order",
        "_ports",
        "_recent",
        "_sent",
        "asker",
        "conversation",
        "dropped",
        "heard_at",
        "id",
        "left_at",
        "record",
        "running",
        "wire",
    )

    def __init__(self, id: str, record: TokenRecord, ports: Ports) -> None:  # noqa: A002  # it is what it is called
        limits = ports.admission.limits
        self.id = id
        self.record = record
        self.asker: Asker = record.asker
        self.conversation: Any = ports.answering.conversation(self.asker)
        self.running: dict[str, Running] = {}
        self.wire: Wire | None = None
        self.heard_at = trio.current_time()
        """When its client last said something."""
        self.left_at: float | None = None
        """Since when it has no connection; None while it has one."""
        self.dropped = ""
        """Why we ended its last connection; empty where we did not."""
        self._ports = ports
        self._kept = KeptEvents(limits.kept_events, limits.kept_bytes)
        self._sent = 0  # the number of the newest event that was handed to the present connection
        self._order = trio.Lock()  # events leave in the order of their numbers
        self._recent: dict[str, None] = {}  # ids of questions that are over
        self._messages = TokenBucket(limits.messages_per_minute)

    def attach(self, wire: Wire, after: int) -> int:
        """Make a connection the session's own; returns how many events after `after` are lost."""
        self.wire = wire
        self.left_at = None
        self.heard_at = trio.current_time()
        self._sent = min(after, self._kept.newest)
        self._kept.seen(self._sent)
        return self._kept.missed_after(self._sent)

    def detach(self, wire: Wire) -> None:
        """The connection is over; a later one may have taken its place already."""
        if self.wire is wire:
            self.wire = None
            self.left_at = trio.current_time()
            self.dropped = "" if wire.farewell is None else wire.farewell.code

    async def serve(self, wire: Wire) -> None:
        """Take messages from the connection until it is over.

        Raises:
            LineClosed: it is.
        """
        limits = self._ports.admission.limits
        wire.is_greeted = True
        await self._deliver()
        while True:
            text = await wire.line.receive()
            self.heard_at = trio.current_time()
            # a client that floods waits: what it sends next is not read before
            await trio.sleep(self._messages.wait_seconds(self.heard_at))
            self._messages.take(1.0, trio.current_time())
            reply = await self._taken(decode(text, max_bytes=limits.message_bytes))
            if reply is not None:
                await wire.send(encode(reply))

    def end(self, why: Event) -> None:
        """Stop every question."""
        for running in list(self.running.values()):
            running.end(why)

    async def answer(self, running: Running) -> None:
        """Answer one question to its end, whatever happens: exactly one last event is emitted."""
        question = running.question

        async def take(event: Event) -> None:
            await self._emit(running, event)

        try:
            try:
                with running.scope:
                    last = await self._ports.answering.answer(question, self.conversation, take)
                    if running.last is None:
                        running.why = last if last.is_last else _internal(self, "it ended without a last event")
            except EventTooLarge as error:
                running.why = Event(Stage.FAILED, {"code": "too_large", "text": str(error)})
            except Exception:  # noqa: BLE001  # a mistake of ours ends one question, not the server
                running.why = _internal(self, "it failed", exc_info=True)
            if running.last is None:
                await self._emit(running, running.why or _too_slow(self._ports.admission.limits.question_seconds))
        finally:
            if running.last is None:
                self._over(running)
        await self._ports.history.append(self.asker, _entry(running))

    async def _taken(self, message: object) -> Reply | None:
        match message:
            case Ask(question):
                return self._asked(question)
            case Cancel(id_):
                running = self.running.get(id_)
                if running is None:
                    return ErrorMessage("no_such_question", "no question of this id is being answered", id_)
                running.end(Event(Stage.CANCELLED))
                return None
            case Review():
                return await self._review(message)
            case HistoryRequest(limit):
                return HistoryMessage(await self._ports.history.newest(self.asker, limit))
            case Ping(after):
                self._kept.seen(min(after, self._sent))
                return Pong()
            case Leave():
                raise LineClosed(NORMAL)
            case Malformed(code, text, id_):
                return ErrorMessage(code, text, id_)
            case Hello():
                return ErrorMessage("hello_again", "hello was said already: open another connection")
            case _:
                raise AssertionError(message)

    def _asked(self, question: Question) -> ErrorMessage | None:
        if question.id in self.running or question.id in self._recent:
            return ErrorMessage("id_in_use", "this session has had a question of this id: choose another", question.id)
        if self._ports.is_draining:
            return ErrorMessage("draining", "the server is about to end", question.id, 5.0)
        now = trio.current_time()
        admitted = self._ports.admission.enter(self.asker, len(self.running), now)
        if isinstance(admitted, Turned):
            return ErrorMessage(admitted.code, admitted.message, question.id, admitted.retry_after)
        running = self.running[question.id] = Running(question, admitted, now)
        running.scope.deadline = now + self._ports.admission.limits.question_seconds
        self._ports.start(self, running)
        return None

    async def _review(self, message: Review) -> Reply:
        try:
            with trio.fail_after(REVIEW_SECONDS):
                answer = await self._ports.answering.review(
                    self.asker, self.conversation, message.of, message.text, message.sql
                )
        except trio.TooSlowError:
            return ErrorMessage("too_slow", f"the review was not taken down in {REVIEW_SECONDS:g} s", message.id)
        except Exception:  # noqa: BLE001  # as with a question
            _internal(self, "a review failed", exc_info=True)
            return ErrorMessage("internal", "the review could not be taken down: the server's log says why", message.id)
        if isinstance(answer, Refusal):
            return ErrorMessage(answer.code, answer.hint, message.id)
        return Reviewed(message.id, answer)

    async def _emit(self, running: Running, event: Event) -> None:
        """Number an event, keep it, and send it if somebody is there; waits where they read slowly."""
        if running.last is not None:
            raise AssertionError(f"{event.stage} came after the last event of question {running.question.id}")
        text = encode(EventMessage(running.question.id, self._kept.newest + 1, event))
        if len(text) > MAX_EVENT_BYTES:
            raise EventTooLarge(f"an event of {len(text)} bytes cannot be sent: ask for fewer rows")
        self._kept.add(text)
        if event.is_last:
            running.last = event
            self._over(running)  # before it is seen: whoever sees it may ask the next one
        if event.stage is Stage.INTENT:
            running.route = str(event.data.get("route", ""))
            _INTENT.observe(trio.current_time() - running.began)
        await self._deliver()

    async def _deliver(self) -> None:
        """Send what has not been sent, in order; where nobody is there, it stays kept."""
        while self._may_send():
            async with self._order:
                wire = self.wire
                found = self._kept.next_after(self._sent)
                if wire is None or found is None or not self._may_send():
                    return
                self._sent, text = found
                try:
                    await wire.send(text)
                except LineClosed:
                    self.detach(wire)

    def _may_send(self) -> bool:
        return self.wire is not None and self.wire.is_greeted and self._sent < self._kept.newest

    def _over(self, running: Running) -> None:
        now, question = trio.current_time(), running.question
        del self.running[question.id]
        self._recent[question.id] = None
        if len(self._recent) > REMEMBERED_IDS:
            del self._recent[next(iter(self._recent))]
        last = running.last
        usage: Usage = NO_TOKENS if last is None else usage_in(last.data)
        self._ports.admission.leave(running.admitted, usage, now)
        stage = "cut" if last is None else last.stage.value  # cut: the server ended at once
        tenant = self.asker.tenant
        _QUESTIONS.labels(tenant, stage).inc()
        _SECONDS.labels(stage).observe(now - running.began)
        for kind, tokens in (("input", usage.prompt_tokens), ("output", usage.output_tokens)):
            _TOKENS.labels(tenant, kind).inc(tokens)
        emit(
            "actors.question.ended",
            tenant=tenant,
            user=self.asker.user,
            session=self.id[:8],
            question=question.id,
            verb=question.verb.value,
            route=running.route,
            stage=stage,
            code="" if last is None else str(last.data.get("code", "")),
            seconds=round(now - running.began, 4),
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.output_tokens,
        )


def _entry(running: Running) -> dict[str, Any]:
    question, last = running.question, running.last
    assert last is not None
    text = question.choice if question.verb is Verb.CHOOSE else question.text
    entry = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "id": question.id,
        "verb": question.verb.value,
        "text": text,
        "stage": last.stage.value,
        "ms": round((trio.current_time() - running.began) * 1000, 1),
    }
    if question.sql:
        entry["sql"] = question.sql
    if "code" in last.data:
        entry["code"] = str(last.data["code"])
    return entry


def _internal(analyst: Analyst, text: str, *, exc_info: bool = False) -> Event:
    emit("actors.question.broken", level="error", session=analyst.id[:8], error=text, exc_info=exc_info)
    return Event(Stage.FAILED, {"code": "internal", "text": "a mistake of the assistant: its log says which"})


def _too_slow(seconds: float) -> Event:
    text = f"no answer within {seconds:g} s"
    return Event(Stage.FAILED, {"code": "too_slow", "text": text})
