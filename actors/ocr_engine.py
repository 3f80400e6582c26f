"""RapidOCR, which reads texts: the extra `ocr`. Loaded at the first reading, as it takes half a second and 100 MB."""

import importlib
import importlib.util
import logging
from typing import Any

import attrs
import trio

from policies.frame import Frame, Pixels
from policies.geometry import box_for
from policies.ocr import OcrLine, in_rows, read_lines, tight_line
from policies.probes import OcrProbe, Reading

MODULE = "rapidocr_onnxruntime"
INSTALL = "install the extra: pip install 'corral[ocr]' (Python 3.11 or 3.12)"


class OcrMissing(Exception):
    """The extra `ocr` is not installed."""


def is_installed() -> bool:
    """True when the engine can be imported; nothing is loaded."""
    return importlib.util.find_spec(MODULE) is not None


@attrs.define(eq=False)
class OcrEngine:
    """One engine a process. Its calls run one at a time, in a worker thread: that is what `limiter` is for."""

    limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))
    _engine: Any = attrs.field(init=False, default=None)

    def lines(self, crop: Pixels, *, single: bool) -> list[OcrLine]:
        """The lines of a picture, from top to bottom. Blocks for 20 ms (single) to a second.

        Args:
            crop: The picture.
            single: It holds one line.

        Raises:
            OcrMissing: not installed.
        """
        engine = self._loaded()
        if not single:
            found, _ = engine(crop, use_cls=False)
            return in_rows([_piece(corners, text, float(score)) for corners, text, score in found or ()])
        tight, ink = tight_line(crop)
        found, _ = engine(tight, use_det=False, use_cls=False)
        x, y = ink.center
        return [OcrLine(text, float(score), x, y) for text, score in found or ()]

    def _loaded(self) -> Any:
        if self._engine is None:
            if not is_installed():
                raise OcrMissing(INSTALL)
            module = importlib.import_module(MODULE)
            self._engine = module.RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)
            # it tells of every picture without text, on a handler of its own
            logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        return self._engine


def _piece(corners: list[list[float]], text: str, score: float) -> OcrLine:
    across, down = [x for x, _ in corners], [y for _, y in corners]
    return OcrLine(text, score, sum(across) / 4, sum(down) / 4, max(down) - min(down))


@attrs.frozen(eq=False)
class OcrReader:
    """Reads one OCR probe."""

    probe: OcrProbe
    engine: OcrEngine

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """Shared by all who read by this engine."""
        return self.engine.limiter

    def read(self, frame: Frame) -> Reading:
        """Read a frame; blocks."""
        box = box_for(self.probe.region, frame.width, frame.height)
        if box.width < 1 or box.height < 1:
            return read_lines(self.probe, (), box, (frame.width, frame.height))
        crop = frame.pixels[box.top : box.bottom, box.left : box.right]
        lines = self.engine.lines(crop, single=self.probe.single_line)
        return read_lines(self.probe, lines, box, (frame.width, frame.height))


SHARED = OcrEngine()
"""The process's own: its models are too large to be had twice."""
