"""The device protocol, byte by byte."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rehearsal.phone.wire import (
    CLSE,
    CNXN,
    COMMANDS,
    OKAY,
    OPEN,
    WRTE,
    Banner,
    Packet,
    PacketReader,
    ShellReader,
    WireError,
    encode_acked,
    encode_banner,
    encode_packet,
    encode_shell,
    parse_acked,
    parse_banner,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def test_open_packet_is_these_bytes() -> None:
    packet = Packet(OPEN, 0x12, 0x2000000, b"shell:id\0")
    golden = bytes.fromhex("4f50454e 12000000 00000002 09000000 00000000 b0afbab1") + b"shell:id\0"

    assert golden == encode_packet(packet, checksum=False)


def test_connect_packet_with_checksum_is_these_bytes() -> None:
    golden = bytes.fromhex("434e584e 01000001 00001000 03000000 26010000 bcb1a7b1") + b"abc"

    assert golden == encode_packet(Packet(CNXN, 0x01000001, 0x100000, b"abc"), checksum=True)


def test_names_spell_the_command() -> None:
    assert [Packet(command, 0, 0).name for command in (CNXN, OKAY, CLSE)] == ["CNXN", "OKAY", "CLSE"]


packets = st.builds(
    Packet,
    st.sampled_from(sorted(COMMANDS)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=300),
)


@given(st.lists(packets, max_size=6), st.lists(st.integers(0, 5000)), st.booleans())
def test_packets_survive_any_cutting(sent: list[Packet], places: list[int], checksum: bool) -> None:
    wire = b"".join(encode_packet(packet, checksum=checksum) for packet in sent)
    reader = PacketReader(verify_checksum=checksum)

    received = [packet for piece in cut(wire, places) for packet in reader.feed(piece)]

    assert received == sent


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: phone\r\n", "not an ADB packet"),
        (encode_packet(Packet(WRTE, 1, 1, b"x" * 5000), checksum=False), "more than the agreed 4096"),
    ],
)
def test_what_is_no_packet_is_refused(wire: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        list(PacketReader(max_payload=4096).feed(wire))


def test_wrong_checksum_is_refused_only_when_sums_were_agreed() -> None:
    wire = encode_packet(Packet(WRTE, 1, 1, b"abc"), checksum=False)

    assert len(list(PacketReader().feed(wire))) == 1
    with pytest.raises(WireError, match="checksum"):
        list(PacketReader(verify_checksum=True).feed(wire))


def test_banner_is_these_bytes() -> None:
    banner = Banner("device", {"ro.product.model": "One"}, frozenset({"shell_v2", "cmd"}))

    assert encode_banner(banner) == b"device::ro.product.model=One;features=cmd,shell_v2"
    assert parse_banner(encode_banner(banner)) == banner


def test_banner_of_an_old_host_has_no_features() -> None:
    assert parse_banner(b"host::\0") == Banner("host", {}, frozenset())


@given(st.integers(-(2**31), 2**31 - 1))
def test_acked_bytes_may_be_negative(count: int) -> None:
    assert parse_acked(encode_acked(count)) == count


def test_okay_without_count_is_refused_where_delayed_ack_was_agreed() -> None:
    with pytest.raises(WireError, match="delayed_ack"):
        parse_acked(b"")


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=100))), st.lists(st.integers(0, 1000)))
def test_shell_pieces_survive_any_cutting(pieces: list[tuple[int, bytes]], places: list[int]) -> None:
    reader = ShellReader()
    wire = b"".join(encode_shell(kind, data) for kind, data in pieces)

    assert [piece for part in cut(wire, places) for piece in reader.feed(part)] == pieces


def test_shell_exit_is_these_bytes() -> None:
    assert encode_shell(3, b"\x7f") == bytes.fromhex("03 01000000 7f")
