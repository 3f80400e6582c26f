"""An operator's own ONNX network, run by OpenCV."""

from pathlib import Path

import attrs
import cv2
import numpy as np
import numpy.typing as npt
import trio

from actors.configuration import Problem, ScenarioError
from policies.detector import DetectorMismatch, detector_input, read_detector
from policies.frame import Frame
from policies.geometry import Box, box_for
from policies.probes import DetectorProbe, Reading

MAX_NETWORK_BYTES = 512 << 20  # detectors of this kind are 3 to 100 MB


@attrs.frozen(eq=False)
class DetectorReader:
    """Reads one detector probe; OpenCV's networks take one picture at a time, so `limiter` has one token."""

    probe: DetectorProbe
    network: cv2.dnn.Net
    limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))

    def read(self, frame: Frame) -> Reading:
        """Read a frame; blocks for as long as the network takes.

        Raises:
            DetectorMismatch: the output has not the declared shape.
            cv2.error: OpenCV cannot run the network on this input.
        """
        box = box_for(self.probe.region, frame.width, frame.height)
        if box.width < 1 or box.height < 1:
            return Reading(0.0, hit=False)
        given = detector_input(self.probe, frame.pixels[box.top : box.bottom, box.left : box.right])
        self.network.setInput(given.blob)
        output: npt.NDArray[np.float32] = np.asarray(self.network.forward(), dtype=np.float32)
        return read_detector(self.probe, output, given, box, (frame.width, frame.height))


def load_detector(probe: DetectorProbe, path: Path, at: str = "$") -> DetectorReader:
    """A network that has answered once, so that what is declared of it is known to be true.

    Args:
        probe: Declares its input and output.
        path: The ONNX file.
        at: Key path of the probe, for messages.

    Raises:
        ScenarioError: with one line: missing, not loadable, or of another shape than declared.
    """
    try:
        if path.stat().st_size > MAX_NETWORK_BYTES:
            raise _wrong(f"{path} is larger than {MAX_NETWORK_BYTES >> 20} MiB", f"{at}.model")
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    except OSError as error:
        raise _wrong(f"{path} cannot be read: {error.strerror or error}", f"{at}.model") from error
    try:
        network = cv2.dnn.readNetFromONNX(content)
    except cv2.error as error:
        raise _wrong(f"OpenCV cannot load {path}: {_first_line(error)}", f"{at}.model") from error
    width, height = probe.input_size
    blank = np.full((height, width, 3), 114, np.uint8)
    try:
        network.setInput(detector_input(probe, blank).blob)
        output: npt.NDArray[np.float32] = np.asarray(network.forward(), dtype=np.float32)
        read_detector(probe, output, detector_input(probe, blank), Box(0, 0, width, height), (width, height))
    except cv2.error as error:
        message = f"OpenCV cannot run {path} on a {width}x{height} input: {_first_line(error)}"
        raise _wrong(message, f"{at}.model") from error
    except DetectorMismatch as error:
        raise _wrong(f"{path}: {error}", f"{at}.layout") from error
    return DetectorReader(probe, network)


def _wrong(message: str, path: str) -> ScenarioError:
    return ScenarioError([Problem(message, path)])


def _first_line(error: cv2.error) -> str:
    """OpenCV's own words without its file and line, on one line."""
    return " ".join((error.err or str(error)).split())[:200]
