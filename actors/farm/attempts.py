"""The attempts that play: started, stopped, and written down when they have ended, whatever ended them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.configuration import ScenarioError
from actors.farm.afterwards import Next, next_for, outcome_of, with_wish
from actors.farm.attempt import AttemptEnd, AttemptFiles, play
from actors.farm.command import PhonesDiffer, overrides_for, run_command
from actors.farm.config import FarmConfig
from actors.farm.database import StoreError
from actors.farm.records import AttemptRecord
from actors.farm.scenarios import file_of, read_scenario
from actors.farm.store import Refused, Store, StoreDesk
from actors.farm.work import AttemptOutcome, Work
from runtime.telemetry import counter, emit

ORPHAN_SECONDS = 0.5  # between two looks whether a process of the daemon before is gone
RETRY_SECONDS = 5.0  # after the state could not be written: a full disk, most often

_ENDED = counter("actors_farm_ended_tasks_total", "Attempts that ended.", ["outcome"])
for _outcome in AttemptOutcome:
    _ENDED.labels(_outcome.value)  # there from the start: what grows from nothing is no increase to Prometheus
_FAILED = counter("actors_farm_state_retries_total", "Times that the state could not be read or written.")


@attrs.define(eq=False)
class _Playing:
    attempt: AttemptRecord
    stop: trio.Event = attrs.field(factory=trio.Event)
    asked: AttemptOutcome | None = None
    """What it ends as, if it was stopped."""
    held_by: str | None = None
    """Who has it stand still; None: nobody."""

    def ask(self, outcome: AttemptOutcome) -> None:
        """Stop it; the first one who asks says what it ends as, but a cancel outweighs the rest."""
        if self.asked is None or outcome is AttemptOutcome.CANCELLED:
            self.asked = outcome
        self.stop.set()


@attrs.define(eq=False)
class Attempts:
    """What plays now, and what an earlier daemon left."""

    _config: Callable[[], FarmConfig] = attrs.field(alias="config")
    _folder: Path = attrs.field(alias="folder")
    _store: StoreDesk = attrs.field(alias="store")
    _nursery: trio.Nursery = attrs.field(alias="nursery")
    _program: tuple[str, ...] = attrs.field(alias="program")
    _door: Path = attrs.field(alias="door")
    """Where the farm's engines are served."""
    _clock: Callable[[], float] = attrs.field(alias="clock")
    _on_end: Callable[[], None] = attrs.field(alias="on_end")
    _tell: Callable[[AttemptRecord], None] = attrs.field(alias="tell", default=lambda _: None)
    """Is told of every attempt that has ended and is written down."""
    changing: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held while attempts begin, are asked to stop, or their end is written: so who stops one finds it, or its end."""
    _playing: dict[str, _Playing] = attrs.field(factory=dict, init=False)  # {attempt: ...}
    _orphans: dict[str, AttemptOutcome] = attrs.field(factory=dict, init=False)  # {attempt: what it will end as}
    _idle: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __len__(self) -> int:
        """How many play."""
        return len(self._playing)

    def plays(self, attempt: str) -> bool:
        """It is one of those that were started here and have not ended."""
        return attempt in self._playing

    def files(self, attempt: str) -> AttemptFiles:
        """Where an attempt's files are."""
        return AttemptFiles(self._folder, attempt)

    def begin(self, work: Work, attempt: AttemptRecord) -> None:
        """Play an attempt that the state has as under way."""
        playing = self._playing[attempt.attempt] = _Playing(attempt)
        emit("actors.farm.attempt_started", attempt=attempt.attempt, tenant=work.tenant, phones=list(attempt.phones))
        self._nursery.start_soon(self._play, work, playing)

    def ask(self, attempt: str, outcome: AttemptOutcome) -> None:
        """Stop an attempt politely; it ends as that, unless it has ended by itself or somebody asked before."""
        if attempt in self._playing:
            self._playing[attempt].ask(outcome)
        elif attempt in self._orphans:
            self._orphans[attempt] = outcome

    def hold(self, attempt: str, by: str | None) -> None:
        """Note who has it stand still, or (None) that it goes on."""
        if attempt in self._playing:
            self._playing[attempt].held_by = by

    def held_by(self, run: str) -> str | None:
        """Who has what plays of a run stand still; None: nobody, or nothing plays."""
        return next((one.held_by for one in self._playing.values() if one.attempt.run == run), None)

    def interrupt(self) -> None:
        """Stop whatever plays; it is queued again."""
        for playing in self._playing.values():
            playing.ask(AttemptOutcome.INTERRUPTED)

    async def wait_idle(self) -> None:
        """Wait until nothing plays."""
        while self._playing:
            self._idle = trio.Event()
            await self._idle.wait()

    async def _play(self, work: Work, playing: _Playing) -> None:
        attempt = playing.attempt
        files = self.files(attempt.attempt)
        end, outcome = AttemptEnd(None), AttemptOutcome.WRONG
        try:
            earlier = await trio.to_thread.run_sync(files.set_aside)
            if earlier is not None:
                emit("actors.farm.folder_set_aside", level="warning", attempt=attempt.attempt, now=str(earlier))
            argv = await trio.to_thread.run_sync(self._command, work, attempt)
        except (Refused, ScenarioError, PhonesDiffer) as error:
            end = AttemptEnd(None, failure=str(error))
        except OSError as error:
            end, outcome = AttemptEnd(None, failure=f"it cannot be prepared: {error}"), AttemptOutcome.ERRORED
        else:
            try:
                limits = self._config().limits
                end = await play(
                    files,
                    argv,
                    stop=playing.stop,
                    stop_seconds=limits.stop_seconds,
                    most_seconds=limits.attempt_hours * 3600.0,
                )
            except OSError as error:
                end = AttemptEnd(None, failure=f"it cannot be started: {error}")
            outcome = AttemptOutcome.ERRORED if end.exit_code is None else outcome_of(end.exit_code)
        if end.too_long:
            outcome = AttemptOutcome.FAILED
        elif end.stopped and playing.asked is not None:
            outcome = playing.asked
        await self._end(attempt, outcome, end)
        self._idle.set()
        self._on_end()

    async def _end(self, attempt: AttemptRecord, outcome: AttemptOutcome, end: AttemptEnd) -> None:
        """Write down how it ended, however long the state cannot be written."""
        files = self.files(attempt.attempt)
        totals = await trio.to_thread.run_sync(files.totals)
        size = await trio.to_thread.run_sync(files.size_bytes)
        while not await self._written(attempt, outcome, end, totals, size):  # noqa: ASYNC110  # a disk tells nobody
            await trio.sleep(RETRY_SECONDS)
        _ENDED.labels(outcome.value).inc()
        emit("actors.farm.attempt_ended", attempt=attempt.attempt, outcome=outcome.value, reason=end.failure)
        self._tell(attrs.evolve(attempt, outcome=outcome, reason=end.failure))

    async def _written(
        self,
        attempt: AttemptRecord,
        outcome: AttemptOutcome,
        end: AttemptEnd,
        totals: Mapping[str, Any] | None,
        size: int,
    ) -> bool:
        """Write it down, once; False: the state does not take it at the moment."""
        name = attempt.attempt
        async with self.changing:
            wish = self._playing[name].asked if name in self._playing else self._orphans.get(name)
            now = self._clock()
            ended_at = now if end.at is None else min(now, max(end.at, attempt.started_at))
            write = partial(
                Store.end,
                attempt=name,
                outcome=outcome,
                following=partial(_following, now, wish),
                now=ended_at,
                reason=end.failure,
                exit_code=end.exit_code,
                result=totals,
                size_bytes=size,
            )
            try:
                await self._store.do(write)
            except StoreError as error:
                _FAILED.inc()
                emit("actors.farm.state_failed", level="error", error=str(error), attempt=name)
                return False
            self._playing.pop(name, None)
            self._orphans.pop(name, None)
            return True

    async def recover(self) -> None:
        """Attempts of the daemon before were interrupted. Their phones stay reserved until their processes are gone."""
        for attempt in await self._store.do(lambda store: store.under_way()):
            self._orphans[attempt.attempt] = AttemptOutcome.INTERRUPTED
            self._nursery.start_soon(self._bury, attempt)

    async def _bury(self, attempt: AttemptRecord) -> None:
        files = self.files(attempt.attempt)
        at = None
        if not await trio.to_thread.run_sync(files.is_alive):
            # it may have ended days ago, and phones are not to be charged for the time that no farm ran
            at = await trio.to_thread.run_sync(files.last_written) or attempt.started_at
        while await trio.to_thread.run_sync(files.is_alive):  # noqa: ASYNC110  # a lock can only be tried
            await trio.sleep(ORPHAN_SECONDS)
        reason = "the farm ended under it"
        await self._end(attempt, self._orphans[attempt.attempt], AttemptEnd(None, failure=reason, at=at))
        self._on_end()

    def _command(self, work: Work, attempt: AttemptRecord) -> tuple[str, ...]:
        config = self._config()
        scenarios = Path(config.farm.scenarios)
        files = self.files(attempt.attempt)
        if work.text is not None:
            source, file = work.text.encode(), files.write_text(work.text)
        else:
            file = file_of(scenarios, work.scenario)
            source = read_scenario(scenarios, work.scenario)
        overrides = overrides_for(source, config, tenant=work.tenant, phones=attempt.phones)
        return run_command(
            self._program,
            file,
            out=files.out,
            run_id=attempt.attempt,
            overrides=overrides,
            vendor=config.farm.vendor,
            door=self._door if config.engines else None,
        )


def _following(now: float, wish: AttemptOutcome | None, work: Work, outcomes: Sequence[AttemptOutcome]) -> Next:
    return with_wish(next_for(work, outcomes, now), wish)
