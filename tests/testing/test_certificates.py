"""The certificate authority of tests: who trusts what it signs."""

import datetime
import socket
import ssl
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker
from kafka_offsets.testing import CertificateAuthority

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


WITHOUT_CRYPTOGRAPHY = """
import sys
sys.modules["cryptography"] = None
sys.path_importer_cache.clear()
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "cryptography" else found(name, package)
from kafka_offsets.testing import *
assert Broker and allow and Certificate
try:
    CertificateAuthority()
except ModuleNotFoundError as error:
    print(error)
"""


def test_all_names_are_there_without_cryptography() -> None:
    made = subprocess.run(
        [sys.executable, "-c", WITHOUT_CRYPTOGRAPHY], capture_output=True, text=True, check=True, timeout=60
    )
    assert made.stdout == "CertificateAuthority needs cryptography: pip install cryptography\n"


def test_files_are_named_by_text_or_path(authority: CertificateAuthority, tmp_path: Path) -> None:
    named = str(tmp_path / "ca.pem")
    assert authority.write_certificate(named) == named
    assert Path(named).read_text(encoding="ascii") == authority.certificate_pem
    for write in (authority.write_pem, lambda name: authority.write_pkcs12(name, "secret")):
        assert write(str(tmp_path / "key")) == write(tmp_path / "key")


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def trusting(authority: CertificateAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate_pem)


def ask(broker: Broker, context: ssl.SSLContext, name: str = "127.0.0.1") -> bytes:
    """Return the start of the answer to a request; raises what the handshake does."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname=name) as peer,
    ):
        peer.sendall(API_VERSIONS)
        return peer.recv(8)[4:]


def serving(config: dict[str, str], **keys: Any) -> Broker:
    return Broker({"listeners": "SSL://127.0.0.1:0", **keys} | config)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_broker_is_trusted_by_either_name(authority: CertificateAuthority, name: str) -> None:
    with serving(authority.broker_config()) as broker:
        assert ask(broker, trusting(authority), name) == struct.pack(">i", 7)


def test_a_broker_of_another_name_or_authority_is_not_trusted(authority: CertificateAuthority) -> None:
    with serving(authority.broker_config("kafka.example", "10.0.0.1")) as broker:
        assert ask(broker, trusting(authority), "kafka.example") == struct.pack(">i", 7)
        with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
            ask(broker, trusting(authority))
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
            ask(broker, trusting(CertificateAuthority()), "kafka.example")


def test_a_client_needs_a_certificate_that_is_valid(authority: CertificateAuthority, tmp_path: Path) -> None:
    past = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
    with serving(authority.broker_config(), **{"ssl.client.auth": "required"}) as broker:
        context = trusting(authority)
        context.load_cert_chain(authority.sign("alice").write_pem(tmp_path / "alice.pem"))
        assert ask(broker, context) == struct.pack(">i", 7)
        context = trusting(authority)
        context.load_cert_chain(authority.sign("bob", end=past).write_pem(tmp_path / "bob.pem"))
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.expired"):
            ask(broker, context)


def test_only_this_user_can_read_a_key(authority: CertificateAuthority, tmp_path: Path) -> None:
    alice = authority.sign("alice")
    for write in (alice.write_pem, alice.write_pkcs12):
        assert stat.S_IMODE(Path(write(tmp_path / write.__name__, "a password")).stat().st_mode) == 0o600
