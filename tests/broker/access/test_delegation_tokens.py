"""Delegation tokens: how many are kept, for how long, and what is not shown. tests/stories has Kafka's answers."""

import logging
from base64 import b64encode
from typing import Any

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.gates import token_requests
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.security.delegation_token import token_of_form
from kafka_offsets.security.principal import Principal
from kafka_offsets.storage.directory.client_settings import TOKENS
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.storage.crash.faults import FaultyFiles

Created = messages.CreateDelegationTokenRequest
HOUR_MS = 3_600_000


def broker(files: MemoryFiles | None = None, clock: ManualClock | None = None, **config: Any) -> BrokerCore:
    """A broker with a key for tokens."""
    return make_core(
        files, clock=clock or ManualClock(), delegation_token_secret_key="the key of the tokens", **config
    )


def client(core: BrokerCore, user: str = "alice") -> CoreClient:
    """A client whose certificate has named it."""
    made = CoreClient(core)
    made.connection.principal = Principal("User", user)
    return made


def create(core: BrokerCore, user: str = "alice", lifetime_ms: int = -1, *renewers: str) -> Any:
    named = [Created.CreatableRenewers("User", renewer) for renewer in renewers]
    return client(core, user).call(Created("", "", named, lifetime_ms), 3)


def described(core: BrokerCore) -> dict[str, Any]:
    answer = client(core).call(messages.DescribeDelegationTokenRequest(None), 3)
    assert answer.error_code == ErrorCode.NONE
    return {each.token_id: each for each in answer.tokens}


def test_tokens_survive_a_stop_and_a_kill() -> None:
    for is_killed in (False, True):
        files = MemoryFiles()
        core = broker(files)
        made = create(core, "alice", -1, "bob")
        if is_killed:
            files = files.copy()
        else:
            core.close()
        (found,) = described(broker(files)).values()
        assert (found.token_id, bytes(found.hmac)) == (made.token_id, bytes(made.hmac))
        assert found.renewers[0].principal_name == "bob"
        assert found.expiry_timestamp == made.expiry_timestamp_ms


def test_another_key_makes_other_secrets() -> None:
    files = MemoryFiles()
    core = broker(files)
    made = create(core)
    core.close()
    other = make_core(files, delegation_token_secret_key="another key")
    assert bytes(described(other)[made.token_id].hmac) != bytes(made.hmac)


def test_expired_tokens_are_removed_at_the_interval() -> None:
    clock = ManualClock()
    core = broker(clock=clock)
    short, long = create(core, "alice", 1000).token_id, create(core, "alice", 2 * HOUR_MS).token_id
    clock.advance(HOUR_MS - 1)
    core.run_due()
    assert described(core).keys() == {short, long}
    clock.advance(1)
    core.run_due()
    assert described(core).keys() == {long}
    clock.advance(2 * HOUR_MS)
    core.run_due()
    assert described(core) == {}


@pytest.mark.parametrize(("lifetime_ms", "is_left"), [(HOUR_MS, True), (HOUR_MS - 1, False)])
def test_a_token_is_valid_up_to_the_millisecond_in_which_it_expires(lifetime_ms: int, is_left: bool) -> None:
    clock = ManualClock()
    core = broker(clock=clock)
    made = create(core, "alice", lifetime_ms)
    assert made.expiry_timestamp_ms == clock.now().wall_ms + lifetime_ms
    clock.advance(HOUR_MS)
    core.run_due()
    assert (made.token_id in described(core)) == is_left


def test_what_the_disk_refuses_to_remove_is_removed_later(caplog: pytest.LogCaptureFixture) -> None:
    files, clock = FaultyFiles(), ManualClock()
    core = broker(files, clock)
    create(core, "alice", 1000)
    files.only = lambda called, path: path.startswith(TOKENS)
    files.calls.clear()
    files.fail_at, files.stuck = 1, True
    clock.advance(HOUR_MS)
    core.run_due()
    assert "expired delegation tokens are not removed" in caplog.text
    assert len(described(core)) == 1
    assert create(core).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    files.fail_at, files.stuck, files.failed = 0, False, False
    clock.advance(HOUR_MS)
    core.run_due()
    assert described(core) == {}


def test_there_are_no_more_tokens_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_requests, "MOST_TOKENS", 2)
    core = broker()
    assert [create(core).error_code for _ in range(3)] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert create(broker(), "alice", -1, "ü" * 254).error_code == ErrorCode.POLICY_VIOLATION
    assert create(broker(), "alice", -1, *map(str, range(100))).error_code == ErrorCode.POLICY_VIOLATION
    assert create(broker(), "alice", -1, *map(str, range(99))).error_code == ErrorCode.NONE


def test_no_owner_is_another_one_after_a_restart() -> None:
    """User:svc:admin is the user "svc:admin", and who may act as it may not act as admin."""
    core = broker()
    refused = client(core).call(Created("User:svc", "admin", [], -1), 3)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert client(core).call(Created("User", "svc:admin", [], -1), 3).error_code == ErrorCode.NONE
    (stored,) = core.directory.clients.tokens.values()
    assert token_of_form(stored.form()) == stored


def test_times_do_not_overflow() -> None:
    core = broker(delegation_token_max_lifetime_ms=2**63 - 1, delegation_token_expiry_time_ms=2**63 - 1)
    made = create(core)
    assert made.error_code == ErrorCode.NONE
    assert made.expiry_timestamp_ms == made.max_timestamp_ms == 2**63 - 1


def test_a_listener_with_certificates_is_one_where_tokens_are_made() -> None:
    """A client that nothing has named, over plaintext or with TLS alone, gets none."""
    core = broker()
    assert create(core).error_code == ErrorCode.NONE
    refused = CoreClient(core).call(Created("", "", [], -1), 3)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_secrets_are_neither_stored_nor_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    files = MemoryFiles()
    core = broker(files)
    secret = bytes(create(core).hmac)
    assert secret and len(described(core)) == 1
    stored = files.read_all(TOKENS)
    shown = caplog.text + repr(core.directory.clients.tokens) + repr(core.config) + stored.decode()
    for form in (secret.hex(), b64encode(secret).decode(), repr(secret)[2:-1], "the key of the tokens"):
        assert form not in shown


def test_without_a_key_stored_tokens_authenticate_nobody() -> None:
    files = MemoryFiles()
    core = broker(files)
    token_id = create(core).token_id
    core.close()
    assert broker(files.copy()).delegation_tokens.find("SCRAM-SHA-256", token_id) is not None
    assert make_core(files).delegation_tokens.find("SCRAM-SHA-256", token_id) is None
