"""The adb server's protocol, byte by byte."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.adb.wire import (
    CLOSED_STDIN,
    DeviceEntry,
    ShellReader,
    WireError,
    compact_shell,
    encode_request,
    parse_devices,
    parse_length,
)


def pieces_to_bytes(pieces: list[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack("<BI", kind, len(data)) + data for kind, data in pieces)


def test_request_is_these_bytes() -> None:
    assert encode_request("host:version") == b"000chost:version"
    assert encode_request("shell:echo é") == b"000dshell:echo \xc3\xa9"


def test_request_that_cannot_be_stated_is_refused() -> None:
    with pytest.raises(ValueError, match="65536 bytes"):
        encode_request("x" * 65536)


def test_length_is_hexadecimal() -> None:
    assert parse_length(b"1fa0") == 0x1FA0
    with pytest.raises(WireError):
        parse_length(b"OKAY")


def test_both_forms_of_device_lists() -> None:
    long = (
        "127.0.0.1:16000        device product:corral model:Corral_One device:corral transport_id:1\n"
        "R58M123ABC             no permissions (user in plugdev group); see [http://x] usb:1-2\n"
    )

    assert parse_devices(long)[0] == DeviceEntry(
        "127.0.0.1:16000",
        "device",
        {"product": "corral", "model": "Corral_One", "device": "corral", "transport_id": "1"},
    )
    assert parse_devices(long)[1].state == "no"
    assert parse_devices("a:1\toffline\nb\tunauthorized\n") == (
        DeviceEntry("a:1", "offline"),
        DeviceEntry("b", "unauthorized"),
    )
    assert parse_devices("") == ()


def test_closing_the_input_is_these_bytes() -> None:
    assert bytes.fromhex("04 00000000") == CLOSED_STDIN


shell_pieces = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=80)), max_size=12)


@given(shell_pieces, st.lists(st.integers(0, 1500)))
def test_shell_pieces_survive_any_cutting(pieces: list[tuple[int, bytes]], places: list[int]) -> None:
    wire = pieces_to_bytes(pieces)
    edges = [0, *sorted(place % (len(wire) + 1) for place in places), len(wire)]
    reader = ShellReader()

    parts = [wire[start:end] for start, end in itertools.pairwise(edges)]

    assert [piece for part in parts for piece in reader.feed(part)] == pieces


@given(shell_pieces, st.integers(0, 255))
def test_compacting_gives_what_was_printed(pieces: list[tuple[int, bytes]], code: int) -> None:
    wire = bytearray(pieces_to_bytes([*pieces, (3, bytes([code]))]))

    output = compact_shell(memoryview(wire))

    assert bytes(output.stdout) == b"".join(data for kind, data in pieces if kind == 1)
    assert output.stderr == b"".join(data for kind, data in pieces if kind == 2)
    assert output.exit_code == code


@given(shell_pieces, st.data())
def test_a_cut_stream_never_has_an_exit_code(pieces: list[tuple[int, bytes]], data: st.DataObject) -> None:
    wire = pieces_to_bytes([*pieces, (3, b"\0")])
    length = data.draw(st.integers(0, len(wire) - 1))

    assert compact_shell(memoryview(bytearray(wire[:length]))).exit_code is None


def test_absurd_length_is_refused() -> None:
    with pytest.raises(WireError):
        list(ShellReader().feed(b"\x01\xff\xff\xff\xff"))
    with pytest.raises(WireError):
        compact_shell(memoryview(bytearray(b"\x01\xff\xff\xff\xff")))
