"""Keystores of listeners that IncrementalAlterConfigs changes: what is refused, described, stored, and not shown."""

import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker
from kafka_offsets.broker.config.types import ConfigSource
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.storage.directory.client_settings import STORES
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.testing import CertificateAuthority
from tests.drivers.core import CoreClient, make_core, request_frame
from tests.storage.crash.faults import FaultyFiles

Alter = messages.IncrementalAlterConfigsRequest
BROKER, SET, DELETE, APPEND = 4, 0, 1, 2
PREFIX = "listener.name.ssl.ssl."
PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix"
LOCATION, PASSWORD = f"{PREFIX}keystore.location", f"{PREFIX}key.password"


class Stores:
    """An authority, and keystores in files."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.authority = directory, CertificateAuthority()
        self.first = self.write("first")

    def write(self, name: str, password: str | None = None, file: str = "") -> str:
        signed = self.authority.sign(name)
        return signed.write_pem(self.directory / f"{file or name}.pem", password)

    def core(self, files: MemoryFiles | None = None) -> BrokerCore:
        return make_core(files, **self.keys("SSL://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"))

    def keys(self, listeners: str) -> dict[str, Any]:
        return {"listeners": listeners, "ssl.keystore.type": "PEM", "ssl.keystore.location": self.first}


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def alter(
    core: BrokerCore, configs: dict[str, str | None], name: str = "1", operation: int = SET, **fields: Any
) -> tuple[int, str | None]:
    changes = [
        Alter.AlterableConfig(key, DELETE if value is None else operation, value)
        for key, value in configs.items()
    ]
    request = Alter([Alter.AlterConfigsResource(BROKER, name, changes)], fields.get("validate_only", False))
    (found,) = CoreClient(core).call(request, 1).responses
    return found.error_code, found.error_message


def described(core: BrokerCore) -> dict[str, tuple[str | None, int, bool]]:
    made = messages.DescribeConfigsRequest
    (found,) = CoreClient(core).call(made([made.DescribeConfigsResource(BROKER, "1", None)], True), 4).results
    return {
        each.name: (each.value, each.config_source, each.is_sensitive)
        for each in found.configs
        if each.name.startswith("listener.name.")
    }


def context(core: BrokerCore) -> ssl.SSLContext:
    tls = core.listeners[0].tls
    assert tls is not None
    return tls.context


def test_a_keystore_is_changed_described_and_there_after_a_restart(stores: Stores) -> None:
    files = MemoryFiles()
    core = stores.core(files)
    before, second = context(core), stores.write("second", "a password")
    assert alter(core, {LOCATION: second, PASSWORD: "a password"}) == (0, None)
    assert context(core) is not before
    shown = {
        LOCATION: (second, ConfigSource.DYNAMIC_BROKER, False),
        PASSWORD: (None, ConfigSource.DYNAMIC_BROKER, True),
    }
    assert described(core) == shown
    core.close()
    again = stores.core(files)
    assert described(again) == shown
    assert alter(again, {LOCATION: None, PASSWORD: None}) == (0, None)
    assert described(again) == {}


def test_new_connections_have_what_a_file_contains_that_is_set_again(stores: Stores) -> None:
    trusting = ssl.create_default_context(cadata=stores.authority.certificate_pem)
    with Broker(stores.keys("SSL://127.0.0.1:0")) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")

        def subject() -> str:
            with (
                socket.create_connection((host, int(port)), 10) as plain,
                trusting.wrap_socket(plain, server_hostname="localhost") as encrypted,
            ):
                certificate: Any = encrypted.getpeercert()
                return certificate["subject"][0][0][1]  # type: ignore[no-any-return]

        assert subject() == "first"
        stores.write("renewed", file="first")
        assert subject() == "first"
        assert broker._call(lambda server: alter(server.core, {LOCATION: stores.first})) == (0, None)
        assert subject() == "renewed"


@pytest.mark.parametrize(
    ("configs", "name", "operation", "expected"),
    [
        ({LOCATION: "/no/such"}, "1", SET, "listener SSL: keystore /no/such: No such file or directory"),
        (
            {f"{PREFIX}keystore.type": "FOO"},
            "1",
            SET,
            "Invalid value FOO for configuration ssl.keystore.type",
        ),
        (
            {"ssl.keystore.location": "/x"},
            "1",
            SET,
            f"{PER_LISTENER}: [ssl.keystore.location]",
        ),
        (
            {LOCATION: "/x"},
            "",
            SET,
            f"Cannot update these configs at default cluster level, broker id must be specified: [{LOCATION}]",
        ),
        (
            {LOCATION: "/x", "num.partitions": "3"},
            "1",
            SET,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            {"listener.name.plaintext.ssl.keystore.location": "/x"},
            "1",
            SET,
            "Cannot update these configs dynamically: [listener.name.plaintext.ssl.keystore.location]",
        ),
        (
            {f"{PREFIX}client.auth": "required"},
            "1",
            SET,
            f"Cannot update these configs dynamically: [{PREFIX}client.auth]",
        ),
        ({LOCATION: "/x"}, "1", APPEND, f"Config value append is not allowed for config key: {LOCATION}"),
    ],
)
def test_what_cannot_be_used_changes_nothing(
    stores: Stores, configs: dict[str, str | None], name: str, operation: int, expected: str
) -> None:
    core = stores.core()
    before = context(core)
    error, message = alter(core, configs, name, operation)
    assert error == (ErrorCode.INVALID_CONFIG if operation == APPEND else ErrorCode.INVALID_REQUEST)
    assert message is not None and message.startswith(expected)
    assert context(core) is before and described(core) == {}


def test_what_is_only_validated_changes_nothing(stores: Stores) -> None:
    core = stores.core()
    before = context(core)
    assert alter(core, {LOCATION: stores.write("second")}, validate_only=True) == (0, None)
    assert alter(core, {LOCATION: "/no/such"}, validate_only=True)[0] == ErrorCode.INVALID_REQUEST
    assert context(core) is before and described(core) == {}


def test_alter_configs_replaces_all_changed_keys(stores: Stores) -> None:
    core, second = stores.core(), stores.write("second", "a password")
    assert alter(core, {LOCATION: second, PASSWORD: "a password"}) == (0, None)
    made = messages.AlterConfigsRequest
    third = made.AlterableConfig(LOCATION, stores.write("third"))
    answer = CoreClient(core).call(made([made.AlterConfigsResource(BROKER, "1", [third])], False), 2)
    assert answer.responses[0].error_code == 0
    assert described(core).keys() == {LOCATION}


def test_a_disk_that_refuses_leaves_the_listener_as_it_was(stores: Stores) -> None:
    files = FaultyFiles()
    core = stores.core(files)
    before, second = context(core), stores.write("second")
    files.only = lambda called, path: path.startswith(STORES)
    files.calls.clear()
    files.fail_at, files.stuck = 1, True
    assert alter(core, {LOCATION: second})[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert context(core) is before and described(core) == {}


def test_passwords_of_stores_are_neither_logged_nor_recorded(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    location = stores.write("second", "hush-hush")
    changes = [
        Alter.AlterableConfig(LOCATION, SET, location),
        Alter.AlterableConfig(PASSWORD, SET, "hush-hush"),
        Alter.AlterableConfig(f"{PREFIX}keystore.key", DELETE, None),
    ]
    request = request_frame(Alter([Alter.AlterConfigsResource(BROKER, "1", changes)], False), 1)
    config = stores.keys("PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0")
    with Broker(config, record=True) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as client:
            client.sendall(request)
            size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
            assert client.recv(size, socket.MSG_WAITALL)
        (recorded,) = broker.requests
        assert recorded.response.responses[0].error_code == 0
        values = [each.value for each in recorded.request.resources[0].configs]
        assert values == [location, "*" * len("hush-hush"), None]
        frame, answer = recorded.frames
        clients = broker._call(lambda server: repr(server.core.config))
    assert answer is not None
    assert b"hush-hush" not in frame + answer and "hush-hush" not in caplog.text + clients
