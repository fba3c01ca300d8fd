"""Certificates for listeners and clients with TLS; needs `cryptography`.

    authority = CertificateAuthority()
    with Broker({"listeners": "SSL://127.0.0.1:0"} | authority.broker_config()) as broker:
        settings = {"security.protocol": "ssl", "ssl.ca.pem": authority.certificate_pem}  # of confluent-kafka

Keys are on the elliptic curve P-256: to make one takes less than a millisecond.
"""

from __future__ import annotations

import datetime
import ipaddress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or find_spec("cryptography") is not None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12

HOSTS = ("localhost", "127.0.0.1")
"""The names and addresses of a machine in its certificate, unless others are given."""

_BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


class Certificate:
    """A certificate with its key.

    key, certificate  as `cryptography` has them
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key, self.certificate = key, certificate

    @property
    def certificate_pem(self) -> str:
        """The certificate alone."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        """Return the key alone, encrypted if there is a password."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(*form, encryption).decode()

    def write_certificate(self, path: str | Path) -> str:
        """Write the certificate to a file; return its name."""
        Path(path).write_text(self.certificate_pem, encoding="ascii")
        return str(path)

    def write_pem(self, path: str | Path, password: str | None = None) -> str:
        """Write key and certificate to a file, a new one only for this user; return its name."""
        return _write_secret(path, (self.key_pem(password) + self.certificate_pem).encode())

    def write_pkcs12(self, path: str | Path, password: str) -> str:
        """Write key and certificate to a file in PKCS12, a new one only for this user; return its name."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        return _write_secret(
            path, pkcs12.serialize_key_and_certificates(b"x", self.key, self.certificate, None, encryption)
        )


class CertificateAuthority(Certificate):
    """An authority that brokers and clients of a test trust, if they have its certificate.

    name  its common name
    ModuleNotFoundError without `cryptography`, which the rest of `kafka_offsets.testing` does not need.
    """

    def __init__(self, name: str = "authority") -> None:
        if find_spec("cryptography") is None:
            raise ModuleNotFoundError(
                "CertificateAuthority needs cryptography: pip install cryptography", name="cryptography"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), _name(name), key, key, _BEGIN, _END)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_signing(), critical=True)
        super().__init__(key, builder.sign(key, hashes.SHA256()))

    def sign(
        self,
        name: str | x509.Name,
        *,
        hosts: tuple[str, ...] = HOSTS,
        begin: datetime.datetime = _BEGIN,
        end: datetime.datetime = _END,
    ) -> Certificate:
        """Return a new key with a certificate.

        name        the common name, or the whole subject
        hosts       names and addresses of the machine
        begin, end  between which times it is valid: the clock of the machine decides, not that of a broker
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name) if isinstance(name, str) else name
        builder = _builder(subject, self.certificate.subject, key, self.key, begin, end)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
        return Certificate(key, builder.sign(self.key, hashes.SHA256()))

    def broker_config(self, *hosts: str) -> dict[str, str]:
        """Return the keys of a broker whose listeners have a certificate of this authority, and trust it.

        hosts  names and addresses of the broker; default: `HOSTS`
        """
        signed = self.sign("broker", hosts=hosts or HOSTS)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": signed.key_pem(),
            "ssl.keystore.certificate.chain": signed.certificate_pem,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.certificate_pem,
        }


def _write_secret(path: str | Path, data: bytes) -> str:
    file = Path(path)
    file.touch(mode=0o600)
    file.write_bytes(data)
    return str(path)


def _signing() -> x509.KeyUsage:
    """Return the use of a key that signs certificates, and nothing else."""
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    """Begin a certificate. Python 3.13 and later demand both identifiers (RFC 5280)."""
    public, serial = key.public_key(), x509.random_serial_number()
    own, issuing = (
        x509.SubjectKeyIdentifier.from_public_key(public_key) for public_key in (public, signer.public_key())
    )
    identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuing)
    builder = x509.CertificateBuilder(issuer, subject, public, serial, begin, end)
    return builder.add_extension(own, critical=False).add_extension(identifier, critical=False)
