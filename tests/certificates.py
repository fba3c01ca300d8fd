"""Certificates with any subject."""

from cryptography import x509

from kafka_offsets.testing import certificates
from kafka_offsets.testing.certificates import Certificate as Signed

__all__ = ["Authority", "Signed"]


class Authority(certificates.CertificateAuthority):
    """Signs certificates; its own is what others trust."""

    def sign(self, *subject: tuple[x509.ObjectIdentifier, str], address: str = "127.0.0.1") -> Signed:  # type: ignore[override]
        """Return a new key with a certificate for a subject, and for a machine."""
        name = x509.Name([x509.NameAttribute(*part) for part in subject])
        return super().sign(name, hosts=("localhost", address))
