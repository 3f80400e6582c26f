"""Slow probes: what networks and OCR read reaches percepts with its age, and steps never wait for it."""

import threading
from pathlib import Path

import attrs
import numpy as np
import pytest
import trio
import trio.testing

from actors import ocr_engine
from actors.configuration import ScenarioError
from actors.network import load_detector
from actors.rehearsal.apps.painter import Painter
from actors.results.record import encode_percept
from actors.rulefile import parse_rule_file
from actors.slow_probes import SlowProbes, perceive_all, slow_readers_for
from policies.frame import Frame
from policies.geometry import Box, Geometry, Region
from policies.perception import compile_probes, perceive, with_slow
from policies.probes import DetectorLayout, DetectorProbe, OcrProbe, OcrReads, Reading
from tests.kit.onnx_files import grid_detector, mean_color_classifier

WHOLE = Region(0, 0, 720, 1280)
COLORS = ("red", "green", "blue")


def frame_of(pixels: np.ndarray, seq: int = 0, at: float = 0.0, epoch: int = 0) -> Frame:
    return Frame(pixels, seq, at, at, Geometry(pixels.shape[1], pixels.shape[0]), epoch)


def blank() -> np.ndarray:
    return np.full((1280, 720, 3), 30, np.uint8)


def grid(find: str = "", **changes: object) -> DetectorProbe:
    probe = DetectorProbe(WHOLE, "grid.onnx", COLORS, find, input_size=(64, 64))
    return attrs.evolve(probe, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("keep_aspect", [True, False])
@pytest.mark.parametrize("find", ["red", "blue"])
def test_a_detector_finds_the_class_and_the_middle_of_its_box(tmp_path: Path, find: str, keep_aspect: bool) -> None:
    (tmp_path / "grid.onnx").write_bytes(grid_detector())
    pixels = blank()
    pixels[800:1000, 80:200] = (0, 0, 255)
    pixels[200:400, 500:620] = (255, 0, 0)
    reader = load_detector(grid(find, keep_aspect=keep_aspect), tmp_path / "grid.onnx")

    reading = reader.read(frame_of(pixels))

    assert reading.hit
    assert reading.text == find
    expected = (140 / 720, 900 / 1280) if find == "red" else (560 / 720, 300 / 1280)
    assert reading.at == pytest.approx(expected, abs=0.09)
    assert not reader.read(frame_of(blank())).hit


def test_a_classifier_names_the_best_class(tmp_path: Path) -> None:
    (tmp_path / "mean.onnx").write_bytes(mean_color_classifier())
    probe = DetectorProbe(
        WHOLE, "mean.onnx", COLORS, layout=DetectorLayout.CLASSES, input_size=(32, 32), keep_aspect=False
    )
    pixels = blank()
    pixels[:] = (0, 255, 0)

    reading = load_detector(probe, tmp_path / "mean.onnx").read(frame_of(pixels))

    assert (reading.text, reading.hit) == ("green", True)
    assert reading.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("content", "probe", "said"),
    [
        (None, grid(), "cannot be read"),
        (b"no network at all", grid(), "OpenCV cannot load"),
        (grid_detector(), grid(classes=("one", "two")), "has 6 values a box"),
        (
            mean_color_classifier(),
            grid(layout=DetectorLayout.CLASSES, classes=("one",), input_size=(32, 32)),
            "gives 3 scores",
        ),
    ],
)
def test_a_network_that_cannot_be_used_is_one_line(
    tmp_path: Path, content: bytes | None, probe: DetectorProbe, said: str
) -> None:
    if content is not None:
        (tmp_path / "grid.onnx").write_bytes(content)

    with pytest.raises(ScenarioError, match=said) as caught:
        slow_readers_for({"enemy": probe}, tmp_path, "rules.toml")

    assert len(caught.value.problems) == 1
    assert str(caught.value).startswith("rules.toml: ")
    assert "$.probes.enemy" in str(caught.value)


def test_a_missing_extra_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ocr_engine, "MODULE", "no_such_module_of_ours")

    with pytest.raises(ScenarioError, match=r"pip install 'corral\[ocr\]'"):
        slow_readers_for({"title": OcrProbe(WHOLE)}, tmp_path)


def test_a_rule_file_with_wrong_slow_probes_names_each_mistake() -> None:
    source = b"""
[probes.title]
kind = "ocr"
region = { x = 0, y = 0, width = 9, height = 9 }
pattern = "("
[probes.enemy]
kind = "detector"
region = { x = 0, y = 0, width = 9, height = 9 }
model = "m.onnx"
classes = ["orc"]
find = "elf"
"""
    with pytest.raises(ScenarioError) as caught:
        parse_rule_file(source, "r.toml")

    assert [problem.line for problem in caught.value.problems] == [5, 11]


needs_ocr = pytest.mark.skipif(not ocr_engine.is_installed(), reason="the extra 'ocr' is not installed")


def text_frame(text: str) -> Frame:
    painter = Painter(720, 1280)
    painter.rectangle(Box(0, 0, 720, 1280), (24, 20, 44))
    painter.text(text, 60, 130, 60, (255, 255, 255), weight=700, align="left")
    return frame_of(painter.canvas[:, :, ::-1].copy())


@needs_ocr
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("single_line", [True, False])
def test_ocr_reads_numbers_and_finds_texts(single_line: bool) -> None:
    region = Region(40, 80, 640, 100) if single_line else Region(0, 0, 720, 500)
    number = OcrProbe(region, OcrReads.NUMBER, r"Level\s*([0-9]+)", single_line=single_line)
    text = OcrProbe(region, OcrReads.TEXT, "Level", single_line=single_line)
    frame = text_frame("Level 274")

    readers = slow_readers_for({"n": number, "t": text, "no": attrs.evolve(text, pattern="Shop")}, Path())

    assert readers["n"].read(frame).value == 274
    seen = readers["t"].read(frame)
    assert seen.hit
    assert seen.at == pytest.approx((190 / 720, 130 / 1280), abs=0.06)
    assert not readers["no"].read(frame).hit


@attrs.define
class Slow:
    """A reader that waits for the test."""

    probe: OcrProbe
    limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))
    go: threading.Event = attrs.field(factory=threading.Event)
    read_seqs: list[int] = attrs.field(factory=list)

    def read(self, frame: Frame) -> Reading:
        self.read_seqs.append(frame.seq)
        assert self.go.wait(10)
        return Reading(frame.seq, hit=True)


async def test_readings_come_with_their_age_and_old_ones_do_not_come() -> None:
    reader = Slow(OcrProbe(WHOLE, every_seconds=0.05, max_age_seconds=2.0))
    slow = SlowProbes({"title": reader})
    perception = compile_probes({}, {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.run)
        await trio.testing.wait_all_tasks_blocked()
        slow.offer(frame_of(blank(), 0, at=10.0))
        while not reader.read_seqs:
            await trio.sleep(0.001)
        for seq in (1, 2, 3):  # come while the first is read: only the newest is read next
            slow.offer(frame_of(blank(), seq, at=10.0 + seq))
        assert slow.latest(perceive(perception, frame_of(blank(), 3, at=13.0))) == {}
        reader.go.set()
        with trio.fail_after(5):
            while len(reader.read_seqs) < 2 or not slow.latest(perceive(perception, frame_of(blank(), 4, at=14.0))):
                await trio.sleep(0.001)
        nursery.cancel_scope.cancel()

    assert reader.read_seqs == [0, 3]
    assert slow.latest(perceive(perception, frame_of(blank(), 4, at=14.5)))["title"].age_seconds == 1.5
    assert slow.latest(perceive(perception, frame_of(blank(), 4, at=15.5))) == {}, "too old"
    assert slow.latest(perceive(perception, frame_of(blank(), 4, at=14.0, epoch=1))) == {}, "the screen has turned"


async def test_those_who_can_wait_get_every_reading(tmp_path: Path) -> None:
    (tmp_path / "grid.onnx").write_bytes(grid_detector())
    probes = {"enemy": grid()}
    readers = slow_readers_for(probes, tmp_path)
    pixels = blank()
    pixels[:200, :200] = (0, 0, 255)

    percept = await perceive_all(compile_probes(probes, {}), readers, frame_of(pixels))

    assert percept.readings["enemy"].text == "red"


def test_what_slow_probes_read_is_part_of_the_record() -> None:
    percept = perceive(compile_probes({}, {}), frame_of(blank()))
    readings = {
        "a": Reading(0.75, hit=True, at=(0.5, 0.25), text="orc", age_seconds=0.3),
        "b": Reading(float("nan"), hit=False, text=""),
    }

    encoded = encode_percept(with_slow(percept, readings))

    assert encoded["readings"]["a"] == [0.75, True, 0.5, 0.25, "orc", 0.3]
    assert encoded["readings"]["b"][0] is None
