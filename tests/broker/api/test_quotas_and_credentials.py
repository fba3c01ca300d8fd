"""Quotas and SCRAM credentials: how many are kept, for how long, and what is heard when they cannot be.

What Kafka answers to them is compared in tests/stories/quotas_and_passwords.txt.
"""

import hashlib
import hmac
from pathlib import Path

import pytest

from kafka_offsets.broker.api import credentials
from kafka_offsets.broker.api import quotas as admin_quotas
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.storage.directory.client_settings import CREDENTIALS, QUOTAS
from kafka_offsets.storage.files.files import DiskFiles, MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.storage.crash.faults import FaultyFiles

SHA_256, SHA_512 = 1, 2
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
UNACCEPTABLE, NOT_STORED = ErrorCode.UNACCEPTABLE_CREDENTIAL, ErrorCode.KAFKA_STORAGE_ERROR

Passwords = messages.AlterUserScramCredentialsRequest
Quotas = messages.AlterClientQuotasRequest


def set_passwords(core: BrokerCore, *users: str, salt: bytes = b"salt") -> dict[str, tuple[int, str | None]]:
    upsertions = [Passwords.ScramCredentialUpsertion(user, SHA_256, 4096, salt, b"salted") for user in users]
    answer = CoreClient(core).call(Passwords([], upsertions), 0)
    return {result.user: (result.error_code, result.error_message) for result in answer.results}


def remove_passwords(core: BrokerCore, *users: str) -> list[int]:
    deletions = [Passwords.ScramCredentialDeletion(user, SHA_256) for user in users]
    return [result.error_code for result in CoreClient(core).call(Passwords(deletions, []), 0).results]


def passwords(core: BrokerCore) -> dict[str, list[tuple[int, int]]]:
    answer = CoreClient(core).call(messages.DescribeUserScramCredentialsRequest(None), 0)
    assert answer.error_code == NONE
    return {
        result.user: [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in answer.results
    }


def set_quota(
    core: BrokerCore, *users: str | None, rate: float | None = 10.0, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    ops = [Quotas.OpData("consumer_byte_rate", rate or 0.0, rate is None)]
    entries = [Quotas.EntryData([Quotas.EntityData("user", user)], ops) for user in users]
    answer = CoreClient(core).call(Quotas(entries, validate_only), 1)
    return [(entry.error_code, entry.error_message) for entry in answer.entries]


def quotas(core: BrokerCore) -> dict[str | None, dict[str, float]]:
    answer = CoreClient(core).call(messages.DescribeClientQuotasRequest([], False), 1)
    assert answer.error_code == NONE
    return {
        entry.entity[0].entity_name: {value.key: value.value for value in entry.values}
        for entry in answer.entries
    }


def test_both_survive_a_stop_and_a_kill() -> None:
    for is_killed in (False, True):
        files = MemoryFiles()
        core = make_core(files)
        set_passwords(core, "alice", "bob")
        set_quota(core, "alice", None)
        if is_killed:
            files = files.copy()
        else:
            core.close()
        again = make_core(files)
        assert passwords(again) == {"alice": [(SHA_256, 4096)], "bob": [(SHA_256, 4096)]}
        assert quotas(again) == {"alice": {"consumer_byte_rate": 10.0}, None: {"consumer_byte_rate": 10.0}}
        assert remove_passwords(again, "alice") == [NONE]
        assert set_quota(again, None, rate=None) == [(NONE, None)]
        again.close()
        assert passwords(make_core(files)) == {"bob": [(SHA_256, 4096)]}


def test_what_is_kept_of_a_password_is_what_rfc_5802_says_and_not_the_salted_password(tmp_path: Path) -> None:
    core = make_core(DiskFiles(tmp_path))
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4096)
    upsertion = Passwords.ScramCredentialUpsertion("alice", SHA_512, 4096, b"salt", salted)
    CoreClient(core).call(Passwords([], [upsertion]), 0)
    kept = core.directory.clients.credentials["alice", SHA_512]
    core.close()
    assert (kept.iterations, kept.salt) == (4096, b"salt")
    client_key = hmac.new(salted, b"Client Key", "sha512").digest()
    assert kept.stored_key == hashlib.sha512(client_key).digest()
    assert kept.server_key == hmac.new(salted, b"Server Key", "sha512").digest()
    assert salted not in kept and client_key not in kept


def test_no_more_credentials_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "MOST_CREDENTIALS", 2)
    core = make_core()
    full = (UNACCEPTABLE, "2 credentials are set, which is as many as may be")
    assert set_passwords(core, "a", "b", "c") == {"a": (NONE, None), "b": (NONE, None), "c": full}
    assert set_passwords(core, "c", "b") == {"b": (NONE, None), "c": full}
    remove_passwords(core, "a")
    assert set_passwords(core, "c") == {"c": (NONE, None)}
    assert set(passwords(core)) == {"b", "c"}


def test_long_names_and_salts_are_refused() -> None:
    core = make_core()
    assert set_passwords(core, "ü" * 256, "ü" * 257) == {
        "ü" * 256: (NONE, None),
        "ü" * 257: (UNACCEPTABLE, "The user name has 514 bytes, more than 512"),
    }
    assert set_passwords(core, "a", salt=bytes(513)) == {
        "a": (UNACCEPTABLE, "The salt has 513 bytes, more than 512")
    }
    assert set_quota(core, "ü" * 257) == [(INVALID, "The user has 514 bytes, more than 512")]
    assert quotas(core) == {}


def test_no_more_entities_have_quotas_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_quotas, "MOST_ENTITIES", 2)
    core = make_core()
    full = (INVALID, "there are quotas of 2 entities, the most allowed")
    assert set_quota(core, "a", None, "c") == [(NONE, None), (NONE, None), full]
    assert set_quota(core, "a", rate=5.0) == [(NONE, None)]
    assert set_quota(core, None, rate=None) == [(NONE, None)]
    assert set_quota(core, "c") == [(NONE, None)]
    assert quotas(core) == {"a": {"consumer_byte_rate": 5.0}, "c": {"consumer_byte_rate": 10.0}}


def test_numbers_that_are_none_are_taken_as_kafka_takes_them() -> None:
    core = make_core()
    assert set_quota(core, "a", rate=float("nan")) == [(NONE, None)]
    assert quotas(core)["a"]["consumer_byte_rate"] != quotas(core)["a"]["consumer_byte_rate"]
    message = "Proposed value for consumer_byte_rate is too large for a LONG."
    assert set_quota(core, "a", rate=float("inf")) == [(INVALID, message)]


def test_what_changes_nothing_writes_nothing() -> None:
    files = FaultyFiles()
    core = make_core(files)
    set_passwords(core, "alice")
    set_quota(core, "alice")
    files.calls.clear()
    set_passwords(core, "alice")
    set_quota(core, "alice")
    set_quota(core, "alice", "bob", rate=5.0, validate_only=True)
    set_quota(core, "bob", rate=None)
    assert [call for call in files.calls if CREDENTIALS in call or QUOTAS in call] == []
    assert quotas(core) == {"alice": {"consumer_byte_rate": 10.0}}


@pytest.mark.parametrize("operation", ["open", "append", "sync", "rename"])
def test_a_disk_that_refuses_keeps_what_was(operation: str) -> None:
    files = FaultyFiles()
    core = make_core(files)
    set_passwords(core, "alice")
    set_quota(core, "alice")
    files.only = lambda called, path: called == operation and path.startswith((CREDENTIALS, QUOTAS))
    files.calls.clear()
    files.fail_at, files.stuck = 1, True
    (error, message) = set_passwords(core, "bob", "")["bob"]
    assert error == NOT_STORED and message is not None and f"{CREDENTIALS}" in message
    assert remove_passwords(core, "alice") == [NOT_STORED]
    (entry,) = set_quota(core, "bob")
    assert entry[0] == NOT_STORED and entry[1] is not None and f"{QUOTAS}" in entry[1]
    assert passwords(core) == {"alice": [(SHA_256, 4096)]}
    assert quotas(core) == {"alice": {"consumer_byte_rate": 10.0}}
    files.fail_at, files.stuck, files.failed = 0, False, False
    assert set_passwords(core, "bob") == {"bob": (NONE, None)}
    assert set_quota(core, "bob") == [(NONE, None)]
    core.close()
    again = make_core(files)
    assert set(passwords(again)) == set(quotas(again)) == {"alice", "bob"}


def test_a_change_back_is_written_when_the_disk_may_have_what_it_refused() -> None:
    """A rename is done, and the sync of its directory fails: the file has what was answered with an error."""
    files = FaultyFiles()
    core = make_core(files)
    set_passwords(core, "alice")
    set_quota(core, "alice", rate=1.0)
    files.only = lambda called, path: called == "sync_directory"
    files.calls.clear()
    files.fail_at, files.stuck = 1, True
    assert remove_passwords(core, "alice") == [NOT_STORED]
    assert set_quota(core, "alice", rate=2.0)[0][0] == NOT_STORED
    files.fail_at, files.stuck, files.failed = 0, False, False
    assert set_passwords(core, "alice") == {"alice": (NONE, None)}
    assert set_quota(core, "alice", rate=1.0) == [(NONE, None)]
    again = make_core(files.copy())
    assert passwords(again) == {"alice": [(SHA_256, 4096)]}
    assert quotas(again) == {"alice": {"consumer_byte_rate": 1.0}}


@pytest.mark.parametrize(
    ("name", "request_", "version"),
    [
        ("AlterClientQuotas", Quotas([Quotas.EntryData([Quotas.EntityData("user", None)], [])], False), 0),
        ("AlterUserScramCredentials", Passwords([Passwords.ScramCredentialDeletion("a", 1)], []), 0),
        ("DescribeClientQuotas", messages.DescribeClientQuotasRequest([], False), 0),
        ("DescribeUserScramCredentials", messages.DescribeUserScramCredentialsRequest(None), 0),
    ],
)
def test_a_failure_is_answered_for_each_that_was_named(
    name: str, request_: messages.MessageValue, version: int
) -> None:
    core = make_core()
    (api,) = [api for api in core.broker.apis if api.name == name]
    answer = api.fail(request_, NOT_STORED, version)
    told = getattr(answer, "entries", None) or getattr(answer, "results", None) or [answer]
    assert [each.error_code for each in told] == [NOT_STORED]


def test_quotas_throttle_no_client() -> None:
    core = make_core()
    set_quota(core, None, rate=1.0)
    answer = CoreClient(core).call(messages.DescribeClientQuotasRequest([], False), 1)
    assert answer.throttle_time_ms == 0


RATES = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


@pytest.mark.parametrize(
    ("requests", "described"),
    [
        ([[0], [1], [2], [3]], (0, 1, 3, 2)),
        ([[3], [2], [1], [0]], (0, 1, 3, 2)),
        ([[0, 1, 2, 3]], (0, 1, 3, 2)),
        ([[0], [1]], (1, 0)),
        ([[0, 3]], (3, 0)),
        ([[0, 2]], (2, 0)),  # in one request, by their hashes
        ([[0], [2]], (0, 2)),  # one after the other, as they came
        ([[2], [0], [2]], (2, 0)),
    ],
)
def test_values_are_described_in_the_order_of_kafkas_map(
    requests: list[list[int]], described: tuple[int, ...]
) -> None:
    # Recorded from Kafka 4.4.0.
    core = make_core()
    client = CoreClient(core)
    for keys in requests:
        ops = [Quotas.OpData(RATES[key], 5.0, False) for key in keys]
        client.call(Quotas([Quotas.EntryData([Quotas.EntityData("user", "u")], ops)], False), 1)
    assert tuple(quotas(core)["u"]) == tuple(RATES[key] for key in described)
