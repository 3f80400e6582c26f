"""Asks pinned questions when they are due, as their owners would, and tells of answers beyond a threshold."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import attrs
import trio

from actors.analyst_limits import Admission, Turned
from actors.answering import Answering
from actors.farm.database import StoreError
from actors.farm.pin_answers import AnswerTaker, failed, why_none
from actors.farm.pins import Pin, next_due
from actors.farm.store import Store, StoreDesk
from actors.notices import Notice, Severity
from actors.question_metering import NO_TOKENS, usage_in
from actors.token_store import TokenStore
from runtime.nursery import open_bare_nursery
from runtime.telemetry import counter, emit
from sqlassist.messages import Asker, Question

AT_A_TIME = 2  # pins are patient; people who ask are not
LOOK_SECONDS = 15.0
LEAST_WAIT_SECONDS = 30.0  # for a tenant that may not ask now
NO_TOKEN = "the token that it asked with is no longer good: run it with another one, and it goes on"  # noqa: S105

_ASKED = counter("actors_farm_pinned_questions_total", "Pinned questions by how they ended.", ["outcome"])


class Teller(Protocol):
    """Takes notices: see `actors.notice_sender.NoticeSender`."""

    def tell(self, notice: Notice) -> None:
        """It is news."""
        ...

    def over(self, key: str) -> None:
        """It is over."""
        ...


@attrs.define(eq=False)
class PinDesk:
    """The pins of a farm with an assistant."""

    store: StoreDesk
    answering: Answering
    admission: Admission
    """A pinned question counts as its owner's, for every limit."""
    tokens: TokenStore
    teller: Teller
    clock: Callable[[], float]
    """Seconds since 1970."""
    is_draining: Callable[[], bool] = lambda: False
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)
    _asking: dict[str, trio.CancelScope] = attrs.field(factory=dict, init=False)

    async def run(self) -> None:
        """Ask whatever is due, for ever. What is being asked when it is cancelled is asked again after a restart."""
        await self._surely(lambda store: store.pins.recover(self.clock()))
        async with open_bare_nursery() as nursery:
            while True:
                self._wake = trio.Event()
                pause = LOOK_SECONDS
                try:
                    pause = await self._begin_due(nursery)
                except StoreError as error:
                    emit("actors.farm.state_failed", level="error", error=str(error))
                with trio.move_on_after(pause):
                    await self._wake.wait()

    def look_again(self) -> None:
        """Something has changed."""
        self._wake.set()

    def forget(self, pin: str) -> None:
        """It was removed: if it is being asked, that ends."""
        if pin in self._asking:
            self._asking[pin].cancel()
        self.teller.over(_key(pin))

    async def _begin_due(self, nursery: trio.Nursery) -> float:
        """Begin what may be begun; returns seconds until the next look."""
        free = AT_A_TIME - len(self._asking)
        if free <= 0 or self.is_draining():
            return LOOK_SECONDS
        now = self.clock()
        for pin in await self.store.do(lambda store: store.pins.due(now, free)):
            following = next_due(pin.draft.schedule, now)
            if await self.store.do(partial(_begin, pin=pin.id, now=now, following=following)):
                self._asking[pin.id] = trio.CancelScope()
                nursery.start_soon(self._ask, pin)
        at = await self.store.do(lambda store: store.pins.next_due_at())
        return LOOK_SECONDS if at is None else min(LOOK_SECONDS, max(0.05, at - now))

    async def _ask(self, pin: Pin) -> None:
        try:
            with self._asking[pin.id]:
                await self._ask_as_owner(pin)
        finally:
            del self._asking[pin.id]
            self._wake.set()

    async def _ask_as_owner(self, pin: Pin) -> None:
        asker = await self._owner(pin)
        if asker is None:
            await self._pause(pin)
            return
        admitted = self.admission.enter(asker, 0, trio.current_time())
        if isinstance(admitted, Turned):
            _ASKED.labels("put_off").inc()
            later = self.clock() + max(LEAST_WAIT_SECONDS, admitted.retry_after)
            await self._surely(lambda store: store.pins.put_off(pin.id, later))
            return
        usage, taker, last = NO_TOKENS, AnswerTaker(pin.draft.threshold), None
        why: str | None = f"there was no answer within {self.admission.limits.question_seconds:g} s"
        try:
            with trio.move_on_after(self.admission.limits.question_seconds):
                conversation = self.answering.conversation(asker)
                question = Question(f"pin-{pin.id}", pin.draft.question)
                last = await self.answering.answer(question, conversation, taker.take)
                usage, why = usage_in(last.data), why_none(last)
        except Exception:  # noqa: BLE001  # a mistake of ours ends one question, not the farm
            emit("actors.farm.pin_failed", level="error", pin=pin.id, tenant=pin.tenant, exc_info=True)
            why = "an internal error: see the farm's log"
        finally:
            self.admission.leave(admitted, usage, trio.current_time())
        if await self._owner(pin) is None:  # revoked while it was asked: the answer is nobody's
            await self._pause(pin)
        elif last is None or why is not None:
            _ASKED.labels("failed").inc()
            kept = failed(pin.last, why or "it ended without a last event", self.clock())
            await self._surely(lambda store: store.pins.end(pin.id, kept, beyond=None))
        else:
            _ASKED.labels("answered").inc()
            await self._keep(pin, taker, taker.answered(last, self.clock()))

    async def _keep(self, pin: Pin, taker: AnswerTaker, kept: dict[str, Any]) -> None:
        """An answer: it is written down, then told, so that a kill in between tells nothing twice."""
        threshold, beyond = pin.draft.threshold, None
        if threshold is not None:
            if taker.extreme is None:
                kept["error"] = f"the answer has no number in a column {threshold.column!r}: nothing was compared"
            else:
                beyond = threshold.is_beyond(taker.extreme)
        is_news = await self._surely(lambda store: store.pins.end(pin.id, kept, beyond=beyond))
        if is_news and taker.extreme is not None:
            self.teller.tell(pin_notice(pin, taker.extreme))
        elif beyond is False:
            self.teller.over(_key(pin.id))

    async def _owner(self, pin: Pin) -> Asker | None:
        """Who asks, with the roles of now; None: the token is gone, has expired, or is somebody else's."""
        record = await trio.to_thread.run_sync(self.tokens.record_of, pin.token)
        if record is None or (record.user, record.tenant) != (pin.user, pin.tenant):
            return None
        return record.asker

    async def _pause(self, pin: Pin) -> None:
        _ASKED.labels("paused").inc()
        emit("actors.farm.pin_paused", level="warning", pin=pin.id, tenant=pin.tenant, user=pin.user)
        await self._surely(lambda store: store.pins.pause(pin.id, NO_TOKEN))

    async def _surely(self, work: Callable[[Store], Any]) -> Any:
        """Write, again and again while the state cannot be written."""
        while True:
            try:
                return await self.store.do(work)
            except StoreError as error:
                emit("actors.farm.state_failed", level="error", error=str(error))
                await trio.sleep(LOOK_SECONDS)


def pin_notice(pin: Pin, number: float) -> Notice:
    """What is told of an answer beyond its threshold."""
    threshold = pin.draft.threshold
    assert threshold is not None
    side = "above" if threshold.is_upper else "below"
    title = f"{pin.draft.title}: {threshold.column} is {number:g}, {side} {threshold.bound:g}"
    fields = (("pin", pin.id), ("tenant", str(pin.tenant)), ("user", pin.user))
    return Notice(_key(pin.id), title, Severity.WARNING, pin.draft.question, fields)


def _key(pin: str) -> str:
    return f"pin:{pin}"


def _begin(store: Store, *, pin: str, now: float, following: float | None) -> bool:
    return store.pins.begin(pin, now, following)
