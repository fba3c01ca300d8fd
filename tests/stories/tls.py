"""Situations of TLS, and their recorder: what clients with and without certificates get from Kafka's listeners.

    python -m tests.stories.tls [PORT]    # records tls.txt from a new Kafka; needs Java 17 and Maven

A situation is one connection. Its answer is `answered` with the version of TLS, when ApiVersions is; otherwise
`refused`, with the alert that the client gets, if any.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.protocol import messages
from kafka_offsets.testing import CertificateAuthority
from tests.drivers.core import request_frame
from tests.stories.authentication import KAFKA, properties

FILE = Path(__file__).with_name("tls.txt")
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "ONEWAY": "SSL",
    "REQUIRED": "SSL",
    "REQUESTED": "SSL",
    "SASL": "SASL_SSL",
    "OLD": "SSL",
    "NEW": "SSL",
}
VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}
NAME = "client"


class Certificates:
    """The files of one run, and the contexts of its clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority, self.other = CertificateAuthority(), CertificateAuthority("another authority")
        self.trusted = directory / "ca.pem"
        self.trusted.write_text(self.authority.certificate_pem, encoding="ascii")
        self.server = self.authority.sign("server").write_pem(directory / "server.pem")
        self.client = self.authority.sign(NAME).write_pem(directory / "client.pem")
        self.stranger = self.other.sign(NAME).write_pem(directory / "stranger.pem")
        self.itself = self.other.write_pem(directory / "itself.pem")

    def context(
        self, version: ssl.TLSVersion | None = None, certificate: str | None = None
    ) -> ssl.SSLContext:
        """Return the context of a client."""
        context = ssl.create_default_context(cadata=self.authority.certificate_pem)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


class Situation(NamedTuple):
    """One connection; `context` is None for a client without TLS."""

    name: str
    listener: str
    context: Callable[[Certificates], ssl.SSLContext] | None
    server_name: str = "localhost"


def situations() -> Iterator[Situation]:
    """Yield all situations."""
    for name, version in VERSIONS.items():
        for listener in LISTENERS:
            yield Situation(
                f"{listener}: {name}", listener, lambda files, version=version: files.context(version)
            )
        for listener in ("ONEWAY", "REQUIRED", "REQUESTED", "SASL"):
            for which in ("client", "stranger", "itself"):
                yield Situation(
                    f"{listener}: {name}, the certificate of {which}",
                    listener,
                    lambda files, version=version, which=which: files.context(version, getattr(files, which)),
                )
        yield Situation(
            f"ONEWAY: {name}, a client that trusts another authority",
            "ONEWAY",
            lambda files, version=version: _trusting(files.other, version),
        )
        yield Situation(
            f"ONEWAY: {name}, the name of another server",
            "ONEWAY",
            lambda files, version=version: files.context(version),
            "example.com",
        )
    yield Situation("ONEWAY: any version", "ONEWAY", lambda files: files.context())
    for listener in ("ONEWAY", "REQUIRED", "SASL"):
        yield Situation(f"{listener}: without TLS", listener, None)
    yield Situation("ONEWAY: TLS 1.2 with a cipher of no key exchange", "ONEWAY", _without_forward_secrecy)


def _trusting(authority: CertificateAuthority, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    context.minimum_version = context.maximum_version = version
    return context


def _without_forward_secrecy(files: Certificates) -> ssl.SSLContext:
    context = files.context(ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("AES128-SHA256")
    return context


def settings(ports: dict[str, int], controller: str, files: Certificates) -> dict[str, str]:
    """Return the keys of a broker for these situations."""
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items())
    return {
        "listeners": addresses + controller,
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.trusted),
        "listener.name.required.ssl.client.auth": "required",
        "listener.name.requested.ssl.client.auth": "requested",
        "listener.name.sasl.ssl.client.auth": "required",
        "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.new.ssl.enabled.protocols": "TLSv1.3",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
        ),
    }


def play(situation: Situation, port: int, files: Certificates) -> list[str]:
    """Connect; return the lines of the situation."""
    request = request_frame(messages.ApiVersionsRequest("test", "1.0"), 3)
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        if situation.context is None:
            return [_exchanged(plain, request, "without TLS")]
        try:
            context = situation.context(files)
            with context.wrap_socket(plain, server_hostname=situation.server_name) as encrypted:
                return [_exchanged(encrypted, request, str(encrypted.version()))]
        except ssl.SSLCertVerificationError as error:
            return [f"the client refuses: {error.verify_message.split(',')[0]}"]
        except ssl.SSLError as error:
            return [f"refused: {_alert(error)}"]
        except ConnectionError:
            return ["refused: closed"]


def _exchanged(connection: socket.socket, request: bytes, version: str) -> str:
    try:
        connection.sendall(request)
        received = connection.recv(4)
    except ssl.SSLError as error:
        return f"refused: {_alert(error)}"
    except ConnectionError:
        return "refused: closed"
    if not received:
        return "refused: closed"
    is_alert = isinstance(connection, socket.socket) and version == "without TLS" and received[0] == 0x15
    return "refused: an alert" if is_alert else f"answered: {version}"


def _alert(error: ssl.SSLError) -> str:
    reason = error.reason or "closed"
    return "closed" if "EOF" in reason else reason


def record(port: int) -> None:
    """Record all situations from a new Kafka."""
    texts = [f"Kafka's answers about TLS, recorded by tests/stories/{Path(__file__).name}."]
    ports = dict(zip(LISTENERS, (port, *range(port + 2, port + 8)), strict=True))
    with tempfile.TemporaryDirectory() as directory:
        files = Certificates(Path(directory))
        extra = Path(directory, "extra.properties")
        keys = settings(ports, f",CONTROLLER://127.0.0.1:{port + 1}", files)
        keys["advertised.listeners"] = ",".join(f"{name}://127.0.0.1:{at}" for name, at in ports.items())
        extra.write_text(properties(keys), encoding="ascii")
        subprocess.run(["bash", str(KAFKA), "start", str(port), directory, str(extra)], check=True)
        try:
            for situation in situations():
                lines = play(situation, ports[situation.listener], files)
                texts.append("\n".join([f"# {situation.name}", *lines]))
                print(situation.name, *lines, file=sys.stderr, flush=True)
        finally:
            subprocess.run(["bash", str(KAFKA), "stop", directory], check=True)
    FILE.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(int(sys.argv[1]) if len(sys.argv) > 1 else 19992)
