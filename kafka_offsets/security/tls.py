"""TLS: makes contexts of Kafka's keys `ssl.…`, from PEM and PKCS12, for servers and for clients.

PKCS12 needs the package `cryptography`, as do the names of clients with certificates. Sources: SslConfigs,
DefaultSslEngineFactory of Kafka 4.3, KIP-651 (PEM).

Cipher suites: the names of `ssl.cipher.suites`, which are those of the IANA, for OpenSSL.

Python can choose suites of TLS 1.2 one by one; of TLS 1.3 all or none. `DEFAULT@SECLEVEL=0` is all suites at
OpenSSL's security level 0, which takes certificates signed with SHA-1 and small keys, as Java does; `@SECLEVEL=0` is
the level for the suites beside it.
"""

import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.installation import install_command
from kafka_offsets.security.tls_alerts import AlertingContext
from kafka_offsets.texts import decoded

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
PROTOCOLS = tuple(_VERSIONS)
CLIENT_AUTH = ("required", "requested", "none")
_TOO_WEAK = {
    "CA_MD_TOO_WEAK": "a certificate is signed with a hash that OpenSSL finds too weak, such as SHA-1",
    "CA_KEY_TOO_SMALL": "a certificate of an authority has a key that OpenSSL finds too small",
    "EE_KEY_TOO_SMALL": "the certificate has a key that OpenSSL finds too small",
}
WEAK_IS_TAKEN = "make a new one, or take it with ssl.cipher.suites=DEFAULT@SECLEVEL=0"
"""The way out for a certificate that Java takes and OpenSSL does not."""

_JKS = b"\xfe\xed\xfe\xed"


class Store(NamedTuple):
    """A keystore or a truststore.

    location      its file; None: `key` and `certificates` are the store, as PEM
    password      of the file, for PKCS12
    key_password  of the private key
    """

    type: str
    location: str | None = None
    password: str | None = None
    key_password: str | None = None
    key: str | None = None
    certificates: str | None = None

    def __repr__(self) -> str:
        """Show no secret: logs and tracebacks show values."""
        return f"Store({self.type}, {self.location})"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is configured."""
        return self.location is None and self.certificates is None


def check_installed(what: str) -> None:
    """Raise ConfigError if the package that something needs is missing."""
    if find_spec("cryptography") is None:
        raise ConfigError(f"cryptography is needed for {what}: {install_command('security')}")


def server_context(
    keystore: Store,
    truststore: Store,
    client_auth: str,
    protocols: tuple[str, ...],
    suites: tuple[str, ...] = (),
) -> ssl.SSLContext:
    """Return the context of a listener, from the files as they are now. Raises ConfigError.

    suites  the cipher suites that it may use, by the names of the IANA; empty: those of OpenSSL
    """
    context = _limited(AlertingContext(ssl.PROTOCOL_TLS_SERVER), protocols)
    if suites:
        choose_suites(context, suites)
    if keystore.is_empty:
        raise ConfigError(
            "a listener with TLS needs ssl.keystore.location, or ssl.keystore.key and its chain"
        )
    _load_key(context, keystore)
    if client_auth != "none":
        check_installed("names of clients with certificates")
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
        _load_trusted(context, truststore, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(
    keystore: Store,
    truststore: Store,
    protocols: tuple[str, ...],
    *,
    checks_name: bool,
    suites: tuple[str, ...] = (),
) -> ssl.SSLContext:
    """Return the context of a client. Raises ConfigError.

    checks_name  whether the certificate must have the name of the server
    suites       as in `server_context`
    """
    context = _limited(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), protocols)
    if suites:
        choose_suites(context, suites)
    context.check_hostname = checks_name
    _load_trusted(context, truststore, ssl.Purpose.SERVER_AUTH)
    if not keystore.is_empty:
        _load_key(context, keystore)
    return context


def _limited(context: ssl.SSLContext, protocols: tuple[str, ...]) -> ssl.SSLContext:
    versions = sorted(_VERSIONS[name] for name in protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    return context


def _load_key(context: ssl.SSLContext, store: Store) -> None:
    """Load the private key with its certificates. Raises ConfigError, which shows nothing of them."""
    try:
        with _key_file(store) as (path, password):
            # A function: OpenSSL would ask for a missing password at the terminal.
            context.load_cert_chain(path, password=lambda: password or "")
    except (OSError, ValueError) as error:
        raise ConfigError(f"keystore {_place(store)}: {_reason(error)}") from None


def _load_trusted(context: ssl.SSLContext, store: Store, purpose: ssl.Purpose) -> None:
    """Load the certificates to trust; without a store those of the system. Raises ConfigError."""
    if store.is_empty:
        context.load_default_certs(purpose)
        return
    try:
        if store.type == "PEM":
            context.load_verify_locations(cadata=_pem_text(store))
        else:
            context.load_verify_locations(cadata=_certificates_of_pkcs12(store))
    except (OSError, ValueError) as error:
        raise ConfigError(f"truststore {_place(store)}: {_reason(error)}") from None


def _place(store: Store) -> str:
    return "of the configuration" if store.location is None else store.location


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason in _TOO_WEAK:
            return f"it cannot be used: {_TOO_WEAK[error.reason]} ({error.reason}): {WEAK_IS_TAKEN}"
        return f"it cannot be used: {error.reason or 'no certificate or no key, or a wrong password'}"
    return str(getattr(error, "strerror", None) or error)


def _pem_text(store: Store) -> str:
    if store.location is not None:
        # Certificates are ASCII; what stands around them may be anything.
        return decoded(Path(store.location).read_bytes(), "it").encode("ascii", "replace").decode()
    return "\n".join(_pem_lines(text) for text in (store.key, store.certificates) if text is not None)


def _pem_lines(text: str) -> str:
    """Return PEM in its lines: a value of a configuration may have spaces in place of line feeds."""
    text = text.replace("----- ", "-----\n").replace(" -----", "\n-----")
    lines = (line if "-----" in line else line.replace(" ", "\n") for line in text.splitlines())
    return "\n".join(lines) + "\n"


@contextmanager
def _key_file(store: Store) -> Iterator[tuple[str, str | None]]:
    """Yield a PEM file with the key and its certificates, and the password of the key: OpenSSL reads files alone.

    A file that is made for this has an encrypted key if possible, can be read by this user alone, and is removed.
    """
    if store.type == "PEM" and store.location is not None:
        with Path(store.location).open("rb"):  # its error names the reason
            pass
        yield store.location, store.key_password
        return
    text, password = (_pem_text(store), store.key_password) if store.type == "PEM" else _key_of_pkcs12(store)
    descriptor, path = tempfile.mkstemp(suffix=".pem")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        yield path, password
    finally:
        Path(path).unlink()


def _key_of_pkcs12(store: Store) -> tuple[str, str]:
    """Return the key, encrypted with a new password, and the certificates of a PKCS12 file as PEM, and the password."""
    check_installed("PKCS12")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    content = pkcs12.load_pkcs12(_bytes_of(store), _encoded(store.password))
    if content.key is None or content.cert is None:
        raise ValueError("there is no private key with a certificate in it")
    password, encoding = secrets.token_hex(16), serialization.Encoding.PEM
    key = content.key.private_bytes(
        encoding,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    certificates = [content.cert, *content.additional_certs]
    chain = b"".join(certificate.certificate.public_bytes(encoding) for certificate in certificates)
    return (key + chain).decode(), password


def _certificates_of_pkcs12(store: Store) -> bytes:
    """Return the certificates of a PKCS12 file, one after the other in DER."""
    check_installed("PKCS12")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    content = pkcs12.load_pkcs12(_bytes_of(store), _encoded(store.password))
    certificates = [
        certificate for certificate in (content.cert, *content.additional_certs) if certificate is not None
    ]
    if not certificates:
        raise ValueError("there is no certificate in it")
    return b"".join(
        certificate.certificate.public_bytes(serialization.Encoding.DER) for certificate in certificates
    )


def _encoded(password: str | None) -> bytes | None:
    return None if password is None else password.encode()


def _bytes_of(store: Store) -> bytes:
    if store.location is None:
        raise ValueError(f"a store of type {store.type} is a file")
    data = Path(store.location).read_bytes()
    if data.startswith(_JKS):
        raise ValueError(
            "this is a keystore in Java's old format: convert it with keytool -importkeystore -deststoretype PKCS12"
        )
    return data


_LEVEL = re.compile(r"(?:DEFAULT)?@SECLEVEL=[0-5]")
_TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


def choose_suites(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Let a context use these cipher suites alone, and the versions of TLS that have some of them.

    Call it once the context has its versions. Raises ConfigError, for an unknown suite, and if none can be used.
    """
    levels = [suite for suite in suites if _LEVEL.fullmatch(suite)]
    suites = tuple(suite for suite in suites if suite not in levels)
    if len(levels) > 1 or (suites and levels and levels[0].startswith("D")):
        raise ConfigError(f"ssl.cipher.suites: {levels[-1]} stands alone")
    if levels and not suites:
        context.set_ciphers(f"DEFAULT{levels[0].removeprefix('DEFAULT')}")
        return
    newer = _TLS_1_3.intersection(suites)
    older = [suite for suite in suites if suite not in _TLS_1_3]
    if newer and newer != _TLS_1_3:
        raise ConfigError(
            f"ssl.cipher.suites: of TLS 1.3 all are served or none: {', '.join(sorted(_TLS_1_3))}"
        )
    for suite in older:
        try:
            context.set_ciphers(_openssl_name(suite))
        except ssl.SSLError:
            raise ConfigError(f"ssl.cipher.suites: {suite} is not served") from None
    if older:
        context.set_ciphers(":".join([*map(_openssl_name, older), *levels]))
    if not newer:
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
    if not older:
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_3)
    if context.minimum_version > context.maximum_version:
        raise ConfigError("ssl.cipher.suites has none for the versions in ssl.enabled.protocols")


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name: ECDHE-RSA-AES256-GCM-SHA384 of TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."""
    match = re.fullmatch(r"TLS_(\w+)_WITH_(\w+)", suite)
    if match is None:
        return "unknown"
    exchange, cipher = match.groups()
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    prefix = "" if exchange == "RSA" else f"{exchange}_"
    return f"{prefix}{cipher}".replace("_", "-")
