"""How a score or a reached goal is read while an episode plays: from log lines, a command, or an HTTP answer."""

import re
from collections import deque
from collections.abc import Awaitable, Callable

import attrs
import httpcore
import trio

from actors.app_health import MAX_FAULTS, AppFault, FaultReader, ForegroundWatch, foreground_in
from actors.devices.base import Device
from actors.logcat import LogcatLine, parse_logcat
from actors.scenario import CommandReading, HealthConfig, HttpReading, LogcatReading, Reading
from runtime.secret import redact
from runtime.telemetry import emit

LOGCAT_EVERY_SECONDS = 1.0
LOG_KEPT = 50  # lines for people who look on
MAX_BODY_BYTES = 1 << 20  # an HTTP answer longer than this is no score


@attrs.define
class Readings:
    """What has been read since the last step."""

    score: float | None = None
    goal_reached: bool = False
    crashes: int = 0
    """Crashes and ANRs of the app in the whole episode."""
    away: list[AppFault] = attrs.field(factory=list)
    """Times that something else was in front of the app for too long."""
    faults: FaultReader | None = None
    """None where the log is not followed for them."""

    log: deque[LogcatLine] = attrs.field(factory=lambda: deque(maxlen=LOG_KEPT))
    """The last lines, not redacted."""

    def all_faults(self) -> tuple[AppFault, ...]:
        """Everything that went wrong with the app so far, what was logged of it included."""
        return (*(self.faults.faults() if self.faults is not None else ()), *self.away)

    def take(self) -> tuple[float | None, bool, int]:
        """(newest score since the last call, goal reached so far, crashes so far)."""
        score, self.score = self.score, None
        return score, self.goal_reached, self.crashes


def number_in(pattern: str, text: str) -> float | None:
    """The last match's first group as a number; None where there is no match or no number."""
    found = None
    for match in re.finditer(pattern, text):
        try:
            found = float(match.group(1))
        except (IndexError, TypeError, ValueError):
            continue
    return found


async def run_logcat(
    device: Device, readings: Readings, *, score: LogcatReading | None, goal: LogcatReading | None
) -> None:
    """Follow the phone's log from now on: scores, the goal, crashes. Runs until cancelled; raises `DeviceLost`."""
    since, seen = await _log_end(device)
    while True:
        await trio.sleep(LOGCAT_EVERY_SECONDS)
        command = f"logcat -d -v epoch -T {since}" if since else "logcat -d -v epoch"
        lines = parse_logcat((await device.shell(command)).stdout)
        # `-T` gives the last known line again, and phones that do not know it give everything
        fresh = [line for line in lines if since is None or _is_after(line, since, seen)]
        if fresh:
            since = fresh[-1].at
            seen = {line for line in lines if line.at == since}
        readings.log.extend(fresh)
        for line in fresh:
            _take_line(line, readings, score, goal)
        if readings.faults is not None:
            for fault in readings.faults.feed(fresh):
                emit(
                    "actors.app.crashed",
                    level="warning",
                    kind=fault.kind,
                    process=fault.process,
                    why=redact(fault.cause),
                )
            readings.crashes = readings.faults.count


async def run_foreground(device: Device, readings: Readings, package: str, health: HealthConfig) -> None:
    """Look what is in front, again and again. Runs until cancelled; raises `DeviceLost`."""
    watch = ForegroundWatch(package, health.away_seconds)
    while True:
        await trio.sleep(health.foreground_every_seconds)
        dump = (await device.shell("dumpsys window windows")).stdout.decode("utf-8", "replace")
        fault = watch.see(foreground_in(dump), trio.current_time())
        if fault is not None:
            emit("actors.app.left", level="warning", why=fault.cause)
            if len(readings.away) < MAX_FAULTS:
                readings.away.append(fault)


def _is_after(line: LogcatLine, since: str, seen: set[LogcatLine]) -> bool:
    return float(line.at) > float(since) or (line.at == since and line not in seen)


async def _log_end(device: Device) -> tuple[str | None, set[LogcatLine]]:
    """When the newest line was logged, and every line of that moment; (None, none) of an empty log."""
    lines = parse_logcat((await device.shell("logcat -d -v epoch -T 1")).stdout)
    if not lines:
        return None, set()
    at = lines[-1].at
    # another process may have logged in the same millisecond, before it
    same = parse_logcat((await device.shell(f"logcat -d -v epoch -T {at}")).stdout)
    return at, {line for line in (*lines, *same) if line.at == at}


def _take_line(line: LogcatLine, readings: Readings, score: LogcatReading | None, goal: LogcatReading | None) -> None:
    text = f"{line.tag}: {line.text}"
    if score is not None:
        value = number_in(score.pattern, text)
        if value is not None:
            readings.score = value
    if goal is not None and re.search(goal.pattern, text):
        readings.goal_reached = True


async def run_polled(reading: CommandReading | HttpReading, device: Device, on_text: Callable[[str], None]) -> None:
    """Ask again and again; hands each answer's text to `on_text`. Runs until cancelled; raises `DeviceLost`."""
    while True:
        text = await (
            _ask_phone(reading, device) if isinstance(reading, CommandReading) else _ask_http(reading, device)
        )
        if text is not None:
            on_text(text)
        await trio.sleep(reading.every_seconds)


async def _ask_phone(reading: CommandReading, device: Device) -> str | None:
    result = await device.shell(reading.command)
    return result.stdout.decode("utf-8", "replace")


async def _ask_http(reading: HttpReading, device: Device) -> str | None:
    url = reading.url.replace("{phone}", device.info.phone)
    try:
        with trio.fail_after(5):
            async with httpcore.AsyncConnectionPool() as pool, pool.stream("GET", url) as response:
                body = b""
                async for part in response.aiter_stream():
                    body += part
                    if len(body) > MAX_BODY_BYTES:
                        emit("actors.reading.failed", level="warning", url=url, error="the answer is too long")
                        return None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, trio.TooSlowError) as error:
        emit("actors.reading.failed", level="warning", url=url, error=str(error) or type(error).__name__)
        return None
    return body.decode("utf-8", "replace") if response.status == 200 else None


def tasks_for(
    device: Device,
    readings: Readings,
    score: Reading | None,
    goal: Reading | None,
    *,
    package: str | None = None,
    health: HealthConfig | None = None,
) -> list[Callable[[], Awaitable[None]]]:
    """What must run beside an episode so that `readings` stays current; probes are read with each frame instead.

    Args:
        device: The phone.
        readings: Kept current.
        score: How the score is read.
        goal: How a reached goal is read.
        package: Of the app whose crashes and ANRs are looked for; None leaves the log alone.
        health: How it is watched; None leaves what is in front alone.
    """
    if package is not None and readings.faults is None:
        readings.faults = FaultReader(package)
    tasks: list[Callable[[], Awaitable[None]]] = []
    log_score = score if isinstance(score, LogcatReading) else None
    log_goal = goal if isinstance(goal, LogcatReading) else None
    if package is not None or log_score or log_goal:
        tasks.append(lambda: run_logcat(device, readings, score=log_score, goal=log_goal))
    if package is not None and health is not None and health.foreground_every_seconds:
        watched, settings = package, health
        tasks.append(lambda: run_foreground(device, readings, watched, settings))
    if isinstance(score, CommandReading | HttpReading):

        def take_score(text: str, pattern: str = score.pattern) -> None:
            value = number_in(pattern, text)
            if value is not None:
                readings.score = value

        polled_score = score
        tasks.append(lambda: run_polled(polled_score, device, take_score))
    if isinstance(goal, CommandReading | HttpReading):

        def take_goal(text: str, pattern: str = goal.pattern) -> None:
            if re.search(pattern, text):
                readings.goal_reached = True

        polled_goal = goal
        tasks.append(lambda: run_polled(polled_goal, device, take_goal))
    return tasks
