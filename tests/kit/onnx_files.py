"""Tiny ONNX networks without weights, written field by field: no package is needed to make one."""

from collections.abc import Sequence

import numpy as np

FLOAT, INT64 = 1, 7


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _node(kind: str, inputs: Sequence[str], output: str, *attributes: bytes) -> bytes:
    parts = [_bytes(1, name) for name in inputs] + [_bytes(2, output), _bytes(3, output), _bytes(4, kind)]
    return b"".join(parts + [_bytes(5, attribute) for attribute in attributes])


def _ints(name: str, values: Sequence[int]) -> bytes:
    return _bytes(1, name) + b"".join(_number(8, value) for value in values) + _number(20, 7)


def _int(name: str, value: int) -> bytes:
    return _bytes(1, name) + _number(3, value) + _number(20, 2)


def _tensor(name: str, array: np.ndarray) -> bytes:
    kind = INT64 if array.dtype == np.int64 else FLOAT
    dims = b"".join(_number(1, size) for size in array.shape)
    return dims + _number(2, kind) + _bytes(8, name) + _bytes(9, array.tobytes())


def _value(name: str, shape: Sequence[int]) -> bytes:
    dims = b"".join(_bytes(1, _number(1, size)) for size in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, FLOAT) + _bytes(2, dims)))


def _model(nodes: Sequence[bytes], tensors: Sequence[bytes], given: Sequence[int], output: Sequence[int]) -> bytes:
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, "g")
    graph += b"".join(_bytes(5, tensor) for tensor in tensors)
    graph += _bytes(11, _value("in", given)) + _bytes(12, _value("out", output))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, 13))


def mean_color_classifier(side: int = 32) -> bytes:
    """[1, 3, side, side] → [1, 3]: the mean of each channel."""
    nodes = [_node("GlobalAveragePool", ["in"], "pooled"), _node("Flatten", ["pooled"], "out", _int("axis", 1))]
    return _model(nodes, [], (1, 3, side, side), (1, 3))


def grid_detector(side: int = 64, cell: int = 8) -> bytes:
    """[1, 3, side, side] → [1, 7, cells] as YOLOv8 lays it out: a box a cell, its scores the means of the channels."""
    count = side // cell
    rows, columns = np.mgrid[0:count, 0:count]
    boxes = np.stack(
        [columns * cell + cell / 2, rows * cell + cell / 2, np.full_like(rows, cell), np.full_like(rows, cell)]
    )
    boxes = boxes.reshape(1, 4, count * count).astype(np.float32)
    nodes = [
        _node("AveragePool", ["in"], "pooled", _ints("kernel_shape", (cell, cell)), _ints("strides", (cell, cell))),
        _node("Reshape", ["pooled", "shape"], "scores"),
        _node("Concat", ["boxes", "scores"], "out", _int("axis", 1)),
    ]
    tensors = [_tensor("shape", np.array([1, 3, count * count], np.int64)), _tensor("boxes", boxes)]
    return _model(nodes, tensors, (1, 3, side, side), (1, 7, count * count))
