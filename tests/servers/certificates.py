"""A certificate authority of the tests' own, with a certificate for a server and one for a
client."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Certificates:
    """Files in PEM. ``server`` and ``client`` have their keys beside them."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def server_context(self, wants_a_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate("server"), self.key("server"))
        if wants_a_client:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def new_certificates(folder: Path) -> Certificates:
    """Write a new authority and its two certificates into the folder."""
    made = Certificates(folder)
    folder.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _named("the tests' authority")
    authority = (
        _builder(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    made.authority.write_bytes(authority.public_bytes(PEM))
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = (
            _builder(_named(name), authority_name, key)
            .add_extension(address, critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        made.certificate(name).write_bytes(certificate.public_bytes(PEM))
        made.key(name).write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
    return made


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    serial = x509.random_serial_number()
    return x509.CertificateBuilder(issuer, subject, key.public_key(), serial, now - day, now + day)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
