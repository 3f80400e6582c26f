"""Certificates of a private CA, for tests of TLS on 127.0.0.1."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificates(folder: Path) -> None:
    """Write `ca`, `server` (signed by it) and `other` (another CA), each a `.pem` and a `.key`."""
    authority = _certificate("test authority", None)
    for name, (certificate, key) in {
        "ca": authority,
        "server": _certificate("server", authority),
        "other": _certificate("another authority", None),
    }.items():
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / f"{name}.key").write_bytes(key.private_bytes(*form))


def _certificate(
    name: str, issuer: "tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None"
) -> "tuple[x509.Certificate, ec.EllipticCurvePrivateKey]":
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
    )
    return builder.sign(key if issuer is None else issuer[1], hashes.SHA256()), key
