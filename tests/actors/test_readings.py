"""Scores and goals are read from log lines, commands and HTTP answers, each line once."""

import http.server
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from actors.app_health import FaultKind
from actors.devices.base import DeviceInfo, ShellResult
from actors.logcat import parse_logcat
from actors.readings import Readings, number_in, tasks_for
from actors.scenario import CommandReading, HealthConfig, HttpReading, LogcatReading
from runtime.ids import PhoneId

SCORE = LogcatReading("game: .*score=([0-9]+)")
GOAL = LogcatReading("game: done")


class LogPhone:
    """A phone whose log grows; it either knows `-T TIME` or gives everything, as old ones do."""

    info = DeviceInfo(PhoneId("P1"), "p1", "m", "1")

    def __init__(self, *, knows_time: bool) -> None:
        self.knows_time = knows_time
        self.lines: list[tuple[float, str, str]] = []
        self.commands: list[str] = []

    def log(self, at: float, text: str, level: str = "I") -> None:
        self.lines.append((at, level, text))

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        await trio.lowlevel.checkpoint()
        self.commands.append(command)
        shown = self.lines
        since = command.split("-T ")[1] if "-T " in command else ""
        if since == "1":
            shown = shown[-1:]
        elif since and self.knows_time:
            shown = [line for line in shown if line[0] >= float(since)]
        text = "--------- beginning of main\n"
        text += "".join(f"{at:14.3f}   100   101 {level} {said}\n" for at, level, said in shown)
        return ShellResult(text.encode(), b"", 0)


@pytest.fixture(params=[True, False], ids=["knows -T", "ignores -T"])
def phone(request: pytest.FixtureRequest) -> LogPhone:
    return LogPhone(knows_time=request.param)


async def follow(phone: Any, readings: Readings, steps: Callable[[], Any], **what: Any) -> None:
    async with trio.open_nursery() as nursery:
        for task in tasks_for(phone, readings, what.get("score"), what.get("goal"), package="dev.corral.game"):
            nursery.start_soon(task)
        await trio.sleep(0.5)
        await steps()
        nursery.cancel_scope.cancel()


async def test_a_score_never_goes_back_to_an_older_line(
    phone: LogPhone, autojump_clock: trio.testing.MockClock
) -> None:
    readings = Readings()
    phone.log(1.0, "game    : score=9")
    seen = []

    async def steps() -> None:
        for number in range(5):
            phone.log(2.0 + number, f"game    : score={number} wave=1")
            await trio.sleep(1.0)
            seen.append(readings.take()[0])
        await trio.sleep(2.0)
        seen.append(readings.take()[0])

    await follow(phone, readings, steps, score=SCORE)

    assert seen == [0, 1, 2, 3, 4, None]


async def test_two_lines_of_one_moment_are_both_read(phone: LogPhone, autojump_clock: trio.testing.MockClock) -> None:
    readings = Readings()
    phone.log(1.0, "game    : start")

    async def steps() -> None:
        phone.log(1.0, "game    : score=1")
        await trio.sleep(1.0)
        phone.log(1.0, "game    : score=2")
        await trio.sleep(1.0)

    await follow(phone, readings, steps, score=SCORE)

    assert readings.score == 2


async def test_goals_and_crashes_are_seen_but_not_those_of_before(
    phone: LogPhone, autojump_clock: trio.testing.MockClock
) -> None:
    readings = Readings()
    phone.log(1.0, "AndroidRuntime: FATAL EXCEPTION: main", level="E")
    phone.log(1.5, "game    : done")

    async def steps() -> None:
        await trio.sleep(1.5)
        assert (readings.crashes, readings.goal_reached) == (0, False)
        phone.log(2.0, "AndroidRuntime: FATAL EXCEPTION: main", level="E")
        phone.log(2.1, "ActivityManager: ANR in dev.corral.game", level="E")
        phone.log(2.2, "game    : FATAL EXCEPTION is just a word here", level="I")
        phone.log(2.3, "game    : done")
        await trio.sleep(2.5)  # the crash does not say whose it is: one more look is taken for that

    await follow(phone, readings, steps, score=SCORE, goal=GOAL)

    assert (readings.crashes, readings.goal_reached) == (2, True)
    assert {fault.kind for fault in readings.all_faults()} == {FaultKind.CRASH, FaultKind.ANR}


async def test_another_app_in_front_is_seen_once_it_stays(autojump_clock: trio.testing.MockClock) -> None:
    class Phone:
        """Something else comes to the front after 20 s."""

        info = DeviceInfo(PhoneId("P1"), "p1", "m", "1")

        async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
            await trio.lowlevel.checkpoint()
            in_front = "dev.corral.game/.Main" if trio.current_time() - started < 20 else "com.android.vending/.Offer"
            is_dump = command == "dumpsys window windows"
            return ShellResult(f"  mCurrentFocus=Window{{1 u0 {in_front}}}\n".encode() if is_dump else b"", b"", 0)

    started = trio.current_time()
    readings = Readings()
    health = HealthConfig(foreground_every_seconds=2.0, away_seconds=10.0)
    async with trio.open_nursery() as nursery:
        for task in tasks_for(Phone(), readings, None, None, package="dev.corral.game", health=health):  # type: ignore[arg-type]
            nursery.start_soon(task)
        await trio.sleep(29)
        assert readings.all_faults() == ()
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    (fault,) = readings.all_faults()
    assert fault.kind is FaultKind.AWAY
    assert fault.cause.startswith("com.android.vending/.Offer was in front for 1")
    assert readings.crashes == 0


async def test_what_another_process_logged_in_the_millisecond_before_is_not_read(
    phone: LogPhone, autojump_clock: trio.testing.MockClock
) -> None:
    readings = Readings()
    phone.log(1.0, "game    : score=7 of the game before")
    phone.log(1.0, "game    : start")

    async def steps() -> None:
        await trio.sleep(3)

    await follow(phone, readings, steps, score=SCORE)

    assert readings.score is None


async def test_a_command_is_asked_again_and_again(autojump_clock: trio.testing.MockClock) -> None:
    class Counter(LogPhone):
        value = 0

        async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
            self.value += command == "dumpsys game"
            return ShellResult(f"points: {self.value * 10}\n".encode(), b"", 0)

    readings, phone = Readings(), Counter(knows_time=True)
    reading = CommandReading("dumpsys game", "points: ([0-9]+)", every_seconds=1.0)

    await follow(phone, readings, partial(trio.sleep, 2.7), score=reading)

    assert readings.score == 40


@pytest.fixture
def web() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/P1"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(b'{"score": 17, "finished": true}' if known else b'{"score": 99}')

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name for it
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("path", "expected"), [("/{phone}", (17.0, True)), ("/other", (None, False))])
async def test_an_http_answer_is_read_if_it_is_one(web: str, path: str, expected: tuple[float | None, bool]) -> None:
    readings = Readings()
    score = HttpReading(web + path, '"score": ([0-9]+)', every_seconds=60)
    goal = HttpReading(web + path, '"finished": true', every_seconds=60)

    await follow(LogPhone(knows_time=True), readings, partial(trio.sleep, 0.5), score=score, goal=goal)

    assert (readings.score, readings.goal_reached) == expected


async def test_a_dead_http_server_is_no_error_of_the_episode() -> None:
    readings = Readings()

    await follow(
        LogPhone(knows_time=True),
        readings,
        partial(trio.sleep, 0.2),
        score=HttpReading("http://127.0.0.1:9", "x=([0-9])"),
    )

    assert readings.score is None


def test_numbers_are_found_or_not() -> None:
    assert number_in("score=([0-9.]+)", "score=1 score=2.5") == 2.5
    assert number_in("score=(.*)", "score=high") is None
    assert number_in("score=", "score=3") is None
    assert number_in("(a)?b", "b") is None


def test_lines_of_other_forms_are_left_out() -> None:
    lines = parse_logcat(b"--------- beginning of main\n  12.345  1  2 E Tag : text: more\n\xff\xfe broken\n12 I no\n")

    assert [(line.at, line.level, line.tag, line.text) for line in lines] == [("12.345", "E", "Tag", "text: more")]
