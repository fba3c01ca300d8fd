"""Certificates for tests: an authority, and what it signs."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
PEM = serialization.Encoding.PEM
CERTIFICATES = x509.KeyUsage(
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
"""What the key of an authority is for."""


class Signed:
    """A key with its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key, self.certificate = key, certificate

    @property
    def certificate_pem(self) -> str:
        """The certificate alone."""
        return self.certificate.public_bytes(PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        """The key alone."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption).decode()

    def write_pem(self, path: Path, password: str | None = None) -> str:
        """Write key and certificate to a file; return its name."""
        path.write_text(self.key_pem(password) + self.certificate_pem, encoding="ascii")
        return str(path)

    def write_pkcs12(self, path: Path, password: str) -> str:
        """Write key and certificate to a file in PKCS12; return its name."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"x", self.key, self.certificate, None, encryption)
        )
        return str(path)


class Authority(Signed):
    """Signs certificates; its own is what others trust."""

    def __init__(self, name: str = "authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        super().__init__(key, self._signed(subject, subject, key.public_key(), key, is_authority=True))

    def sign(self, *subject: tuple[x509.ObjectIdentifier, str], address: str = "127.0.0.1") -> Signed:
        """Return a new key with a certificate for a subject, and for a machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(*part) for part in subject])
        return Signed(key, self._signed(name, self.certificate.subject, key.public_key(), self.key, address))

    @staticmethod
    def _signed(
        subject: x509.Name,
        issuer: x509.Name,
        public: ec.EllipticCurvePublicKey,
        key: ec.EllipticCurvePrivateKey,
        address: str = "127.0.0.1",
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
        builder = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number(), BEGIN, END)
        builder = builder.add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        # Python 3.13 and later ask for the rest of RFC 5280 by default.
        own, issuing = (
            x509.SubjectKeyIdentifier.from_public_key(each) for each in (public, key.public_key())
        )
        identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuing)
        builder = builder.add_extension(own, critical=False).add_extension(identifier, critical=False)
        if is_authority:
            builder = builder.add_extension(CERTIFICATES, critical=True)
        return builder.sign(key, hashes.SHA256())
