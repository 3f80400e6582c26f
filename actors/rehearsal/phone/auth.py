r"""Is this host allowed in: adb's public keys and their signatures over a token, checked for real.

A host's key is `base64(struct) user@host\0`, where the struct is five little-endian parts: modulus length in words
u32, n0inv u32, modulus 256 bytes, R squared 256 bytes, exponent u32. A signature is PKCS #1 v1.5 over the 20-byte
token, which stands for the SHA-1 digest. Source: AOSP `adb/crypto/rsa_2048_key.cpp`, `libcrypto_utils`.
"""

import base64
import binascii
import struct
from enum import StrEnum

import attrs

TOKEN_SIZE = 20
_MODULUS_SIZE = 256
_KEY_SIZE = 4 + 4 + 2 * _MODULUS_SIZE + 4
_SHA1_PREFIX = bytes.fromhex("3021300906052b0e03021a05000414")  # DER of DigestInfo(SHA-1), RFC 8017 section 9.2


class AuthMode(StrEnum):
    """How a phone treats a host that wants in."""

    NONE = "none"
    """No question asked, as emulators and most cloud phones are."""
    ACCEPT = "accept"
    """Asks for a signature, and takes any key that is offered, as an owner who taps "allow" does."""
    NEVER = "never"
    """Asks, and never answers: the phone stays `unauthorized`."""


@attrs.frozen
class PublicKey:
    """An RSA key of 2048 bits."""

    modulus: int
    exponent: int


def parse_public_key(payload: bytes | memoryview) -> PublicKey | None:
    """The key in an AUTH packet of type 3, or None if it is none."""
    text = bytes(payload).rstrip(b"\0").split(b" ", 1)[0]
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    if len(raw) != _KEY_SIZE:
        return None
    modulus = int.from_bytes(raw[8 : 8 + _MODULUS_SIZE], "little")
    (exponent,) = struct.unpack_from("<I", raw, _KEY_SIZE - 4)
    if modulus == 0:
        return None
    return PublicKey(modulus=modulus, exponent=int(exponent))


def is_signed(token: bytes, signature: bytes | memoryview, key: PublicKey) -> bool:
    """True when `signature` over `token` was made with the private half of `key`."""
    if len(signature) != _MODULUS_SIZE:
        return False
    opened = pow(int.from_bytes(signature, "big"), key.exponent, key.modulus).to_bytes(_MODULUS_SIZE, "big")
    tail = b"\0" + _SHA1_PREFIX + token
    return opened == b"\0\1" + b"\xff" * (_MODULUS_SIZE - 2 - len(tail)) + tail
