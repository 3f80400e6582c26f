"""Every way to read a score, against the truth behind the pixels."""

from functools import partial
from pathlib import Path
from typing import cast

import attrs
import cv2
import numpy as np
import pytest
import trio

from actors import ocr_engine
from actors.assets import load_rules
from actors.devices.base import Device, DeviceInfo, ShellResult
from actors.readings import Readings, tasks_for
from actors.rehearsal.apps.base import App
from actors.rehearsal.apps.battler_layout import REVIVE_REGION
from actors.rehearsal.apps.catalog import APPS
from actors.scenario import CommandReading, HttpReading, LogcatReading, Reading
from policies.digit_cut import DigitsNotCut, cut_digits
from policies.frame import Frame, Pixels
from policies.geometry import Geometry, Region, box_for
from policies.perception import compile_probes, perceive
from policies.probes import DigitsProbe, OcrProbe, OcrReads, TemplateProbe
from runtime.ids import PhoneId
from tests.kit.devices import wait_until
from tests.kit.rehearsal_play import do_move, seeing_planner

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SIZES = [(720, 1280), (1080, 2400), (1080, 1920), (480, 854)]
STATE_KEY = {"battler": "best", "merge": "best", "errands": "score"}


def shown(app: App, now: float) -> Frame:
    pixels = np.asarray(cv2.cvtColor(app.draw(now), cv2.COLOR_RGB2BGR), dtype=np.uint8)
    return Frame(pixels, 0, now, now, Geometry(pixels.shape[1], pixels.shape[0]))


def with_score(name: str, score: int, size: tuple[int, int]) -> App:
    """An app whose score is set through the side door."""
    app = APPS[name](seed=1, width=size[0], height=size[1], now=0.0)
    setattr(app._state, STATE_KEY[name], score)  # type: ignore[attr-defined]
    assert app.truth(0.0)["score"] == score
    return app


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", sorted(APPS))
def test_digits_read_every_score_of_a_bundled_app_at_every_size(name: str, size: tuple[int, int]) -> None:
    rules, pictures = load_rules(SCENARIOS / f"{name}.rules.toml")
    perception = compile_probes({"score": rules.probes["score"]}, pictures)
    numbers = [0, 1, 7, 10, 11, 18, 23, 44, 47, 56, 69, 71, 88, 90, 99]
    numbers += [100, 111, 274, 777, 1024, 1171, 3896] if name == "merge" else []

    read = [perceive(perception, shown(with_score(name, n, size), 0.0)).readings["score"].value for n in numbers]

    assert read == numbers


@pytest.mark.parametrize("name", sorted(APPS))
def test_digits_follow_the_truth_while_an_app_is_played(name: str) -> None:
    """Also behind pop-ups, while screens load, in landscape, and after a defeat."""
    rules, pictures = load_rules(SCENARIOS / f"{name}.rules.toml")
    perception = compile_probes({"score": rules.probes["score"]}, pictures)
    app = APPS[name](seed=5, width=720, height=1280, now=0.0)
    plan, now, seen = seeing_planner(), 0.0, set()
    while now < 40:
        screen = app.draw(now)
        frame = Frame(np.asarray(screen[:, :, ::-1]).copy(), 0, now, now, Geometry(screen.shape[1], screen.shape[0]))
        truth = app.truth(now)["score"]
        assert perceive(perception, frame).readings["score"].value == truth, f"at {now} s"
        seen.add(truth)
        for move in plan(screen, ()):
            do_move(app, now, move, screen)
            now += 0.4

    assert len(seen) > 1, "nothing was won: the test saw one number only"


@pytest.mark.skipif(not ocr_engine.is_installed(), reason="the extra 'ocr' is not installed")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", sorted(APPS))
def test_ocr_reads_scores_and_says_so_when_it_is_not_sure(name: str) -> None:
    region = load_rules(SCENARIOS / f"{name}.rules.toml")[0].probes["score"].region
    reader = ocr_engine.OcrReader(OcrProbe(region, OcrReads.NUMBER), ocr_engine.SHARED)
    numbers = [12, 25, 34, 46, 58, 69, 81, 93] + ([104, 274, 1024] if name == "merge" else [])

    read = [reader.read(shown(with_score(name, n, (720, 1280)), 0.0)).value for n in numbers]

    right = sum(value == number for value, number in zip(read, numbers, strict=True))
    wrong = sum(value != number and value == value for value, number in zip(read, numbers, strict=True))
    assert right >= len(numbers) - 1, read
    assert wrong == 0, "what OCR is not sure of is no reading"


@pytest.mark.parametrize("size", SIZES)
def test_a_template_that_appears_tells_of_defeat(size: tuple[int, int]) -> None:
    """Cut at 720x1280, found on every other shape through its anchor."""

    def after(seconds: float, shape: tuple[int, int]) -> tuple[Frame, bool]:
        app = APPS["battler"](seed=2, width=shape[0], height=shape[1], now=0.0)
        now = 0.0
        while now < seconds and not app.truth(now)["over"]:
            now += 0.5
        return shown(app, now), app.truth(now)["over"]

    lost, over = after(600, (720, 1280))
    assert over
    box = box_for(REVIVE_REGION, 720, 1280)
    picture = lost.pixels[box.top : box.bottom, box.left : box.right].copy()
    region = Region(box.left - 20, box.top - 20, box.width + 40, box.height + 40, REVIVE_REGION.anchor)
    perception = compile_probes({"defeat": TemplateProbe(region, "revive")}, {"revive": picture})

    there, is_over = after(600, size)
    playing, plays_on = after(1, size)

    assert is_over
    assert not plays_on
    assert perceive(perception, there).readings["defeat"].hit
    assert not perceive(perception, playing).readings["defeat"].hit


def test_digits_that_are_cut_from_a_frame_are_the_bundled_ones() -> None:
    frame = shown(with_score("battler", 45, (720, 1280)), 0.0)
    probe = load_rules(SCENARIOS / "battler.rules.toml")[0].probes["score"]
    box = box_for(probe.region, 720, 1280)
    crop: Pixels = frame.pixels[box.top : box.bottom, box.left : box.right]

    cuts = cut_digits(crop, "45")

    assert [cut.digit for cut in cuts] == [4, 5]
    assert isinstance(probe, DigitsProbe)
    for cut in cuts:
        stored = cv2.imread(str(SCENARIOS / probe.digits / f"{cut.digit}.png"))
        assert stored is not None
        assert np.array_equal(stored, cut.pixels)
    with pytest.raises(DigitsNotCut, match="holds 2 separate glyphs, '456' has 3"):
        cut_digits(crop, "456")
    with pytest.raises(DigitsNotCut, match="nothing stands out"):
        cut_digits(np.zeros((20, 20, 3), np.uint8), "1")


@attrs.define
class TellingPhone:
    """A phone whose log and one command tell of a played app, as real phones do."""

    app: App
    now: float = 0.0
    info: DeviceInfo = attrs.field(factory=lambda: DeviceInfo(PhoneId("TELL0"), "tell", "", ""))
    lines: list[str] = attrs.field(factory=list)

    def play(self, seconds: float) -> None:
        plan = seeing_planner()
        until = self.now + seconds
        while self.now < until:
            screen = self.app.draw(self.now)
            for move in plan(screen, ()):
                do_move(self.app, self.now, move, screen)
                self.now += 0.4

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        await trio.lowlevel.checkpoint()
        if command.startswith("logcat"):
            for line in self.app.take_log(self.now):
                self.lines.append(f"{1700000000 + line.seconds:.3f}  100  100 {line.level} {line.tag}: {line.text}")
            return ShellResult("\n".join(self.lines).encode(), b"", 0)
        assert command == "cat /sdcard/score"
        return ShellResult(f"score={self.app.truth(self.now)['score']:g}\n".encode(), b"", 0)


async def serve_truth(phone: TellingPhone, stream: trio.SocketStream) -> None:
    async with stream:
        await stream.receive_some(4096)
        body = f'{{"score": {phone.app.truth(phone.now)["score"]:g}}}'
        await stream.send_all(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


@pytest.mark.parametrize("kind", ["logcat", "command", "http"])
@pytest.mark.parametrize("name", sorted(APPS))
async def test_what_a_phone_or_a_server_tells_is_the_truth(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.readings.LOGCAT_EVERY_SECONDS", 0.02)
    phone = TellingPhone(APPS[name](seed=5, width=720, height=1280, now=0.0))
    readings = Readings()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, partial(serve_truth, phone), 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        ways: dict[str, Reading] = {
            "logcat": LogcatReading(rf"{name}: .*score=([0-9]+)"),
            "command": CommandReading("cat /sdcard/score", "score=([0-9]+)", 0.02),
            "http": HttpReading(f"http://127.0.0.1:{port}/{{phone}}", '"score": ([0-9]+)', 0.02),
        }
        for task in tasks_for(cast("Device", phone), readings, ways[kind], None, package=None):
            nursery.start_soon(task)
        # a log is followed from where it stands when the episode begins
        await wait_until(lambda: kind != "logcat" or bool(phone.lines))
        for _ in range(3):
            phone.play(10)
            await wait_until(lambda: readings.score == phone.app.truth(phone.now)["score"])
        nursery.cancel_scope.cancel()

    assert readings.score == phone.app.truth(phone.now)["score"]
    assert readings.score
    assert readings.score > 0
