"""Keys and signatures as adb makes them."""

import base64
import hashlib
import struct

from actors.rehearsal.phone.auth import PublicKey, is_signed, parse_public_key

# a key made here, so that its private half can sign as adb does
E = 65537


def _prime_from(seed: int) -> int:
    candidate = (int.from_bytes(hashlib.shake_256(seed.to_bytes(4, "big")).digest(128), "big") | 1) | (3 << 1022)
    while pow(2, candidate - 1, candidate) != 1 or (candidate - 1) % E == 0:
        candidate += 2
    return candidate


P, Q = _prime_from(1), _prime_from(2)
KEY = PublicKey(modulus=P * Q, exponent=E)


def _sign(token: bytes) -> bytes:
    private = pow(E, -1, (P - 1) * (Q - 1))
    digest_info = bytes.fromhex("3021300906052b0e03021a05000414") + token
    message = b"\0\1" + b"\xff" * (256 - 3 - len(digest_info)) + b"\0" + digest_info
    return pow(int.from_bytes(message, "big"), private, KEY.modulus).to_bytes(256, "big")


def _encoded() -> bytes:
    raw = struct.pack("<II", 64, 0) + KEY.modulus.to_bytes(256, "little") + bytes(256) + struct.pack("<I", E)
    return base64.b64encode(raw) + b" someone@host\0"


def test_key_is_read_from_what_adb_sends() -> None:
    assert parse_public_key(_encoded()) == KEY


def test_garbage_is_no_key() -> None:
    assert parse_public_key(b"not base64 at all\0") is None
    assert parse_public_key(base64.b64encode(b"short")) is None
    assert parse_public_key(base64.b64encode(bytes(524))) is None


def test_signature_of_this_token_by_this_key_alone_is_good() -> None:
    token = b"0123456789abcdefghij"

    assert is_signed(token, _sign(token), KEY)
    assert not is_signed(b"another-token-of-20-", _sign(token), KEY)
    assert not is_signed(token, _sign(token)[:-1], KEY)
    assert not is_signed(token, _sign(token), PublicKey(KEY.modulus + 2, E))
