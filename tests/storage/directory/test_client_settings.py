"""The files of credentials, quotas and ACLs: what was set is read again, or the start fails with file and position."""

import hashlib
import hmac
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import StorageError
from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kafka_offsets.security.credential import Credentials, ScramCredential
from kafka_offsets.security.delegation_token import DelegationToken
from kafka_offsets.security.principal import Principal
from kafka_offsets.storage.directory.client_settings import (
    ACLS,
    CREDENTIALS,
    QUOTAS,
    STORES,
    TOKENS,
    decode_acls,
    decode_credentials,
    decode_quotas,
    decode_tokens,
    encode_acls,
    encode_credentials,
    encode_listener_stores,
    encode_quotas,
    encode_tokens,
)
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.checked_lines import encode_line
from kafka_offsets.storage.files.files import DiskFiles, MemoryFiles
from tests.conftest import REPOSITORY
from tests.storage.batches import write
from tests.storage.crash.faults import Crash, FaultyFiles

ALICE = {("alice", 1): ScramCredential(4096, b"salt", b"stored", b"server")}
BOTH = ALICE | {("alice", 2): ScramCredential(8192, b"", b"\0\xff", b"\xff")}
FEW = {frozenset({("user", "alice")}): {"consumer_byte_rate": 1000.0}}
MANY = FEW | {
    frozenset({("user", None), ("client-id", "ü")}): {"request_percentage": 0.5},
    frozenset({("user", None)}): {"producer_byte_rate": float("inf"), "consumer_byte_rate": 2.0**63},
}
READS = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    Permission.ALLOW,
)
TOKEN = DelegationToken(
    "A1b2C3d4E5f6G7h8I9j0Kw",
    Principal("User", "alice"),
    Principal("User", "alice"),
    (Principal("User", "bob"),),
    1_700_000_000_000,
    1_700_086_400_000,
    1_700_604_800_000,
)
STORE = {"listener.name.internal.ssl.keystore.location": "/etc/kafka/new.pem"}
SOME = {TOKEN.token_id: TOKEN}
RULES = frozenset({READS, READS._replace(name="ü", permission=Permission.DENY)})
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
CREDENTIAL = st.builds(
    ScramCredential,
    st.integers(0, 20_000),
    st.binary(max_size=9),
    st.binary(max_size=9),
    st.binary(max_size=9),
)


def opened(files: MemoryFiles) -> DataDirectory:
    directory = DataDirectory(files)
    directory.close()
    return directory


@pytest.mark.slow
@given(st.dictionaries(st.tuples(TEXTS, st.integers(-128, 127)), CREDENTIAL, max_size=5))
def test_credentials_are_read_as_they_were_written(
    credentials: dict[tuple[str, int], ScramCredential],
) -> None:
    assert decode_credentials(encode_credentials(credentials), "c") == credentials


@pytest.mark.slow
@given(
    st.dictionaries(
        st.dictionaries(TEXTS, TEXTS | st.none(), max_size=3).map(lambda parts: frozenset(parts.items())),
        st.dictionaries(TEXTS, st.floats(allow_nan=False), max_size=3),
        max_size=5,
    )
)
def test_quotas_are_read_as_they_were_written(
    quotas: dict[frozenset[tuple[str, str | None]], dict[str, float]],
) -> None:
    assert decode_quotas(encode_quotas(quotas), "q") == quotas


@given(
    st.frozensets(
        st.builds(
            AclBinding,
            *(
                st.sampled_from(ResourceType),
                TEXTS,
                st.sampled_from(PatternType),
                TEXTS,
                TEXTS,
                st.sampled_from(AclOperation),
                st.sampled_from(Permission),
            ),
        ),
        max_size=5,
    )
)
def test_acls_are_read_as_they_were_written(acls: frozenset[AclBinding]) -> None:
    assert decode_acls(encode_acls(acls), "a") == acls


PRINCIPALS = st.builds(Principal, TEXTS.filter(lambda text: ":" not in text), TEXTS)
TIMES = st.integers(0, 2**63 - 1)


@given(
    st.lists(
        st.builds(
            DelegationToken,
            TEXTS,
            PRINCIPALS,
            PRINCIPALS,
            st.lists(PRINCIPALS, max_size=2).map(tuple),
            TIMES,
            TIMES,
            TIMES,
        ),
        max_size=3,
    )
)
def test_tokens_are_read_as_they_were_written(tokens: list[DelegationToken]) -> None:
    by_id = {token.token_id: token for token in tokens}
    assert decode_tokens(encode_tokens(by_id), "t") == by_id


def test_what_was_set_is_there_after_a_restart_and_what_was_removed_is_not() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files)
    clients = directory.clients
    assert (clients.credentials, clients.quotas, clients.acls, clients.tokens) == ({}, {}, frozenset(), {})
    assert not {CREDENTIALS, QUOTAS, ACLS, TOKENS, STORES} & set(files.list_directory(""))
    directory.clients.set_credentials(BOTH)
    directory.clients.set_quotas(MANY)
    directory.clients.set_acls(RULES)
    directory.clients.set_tokens(SOME)
    directory.clients.set_listener_stores(STORE)
    directory.close()
    again = opened(files).clients
    assert (again.credentials, again.quotas, again.acls, again.tokens) == (BOTH, MANY, RULES, SOME)
    assert again.listener_stores == STORE
    DataDirectory(files).clients.set_credentials(ALICE)
    assert decode_credentials(files.read_all(CREDENTIALS), CREDENTIALS) == ALICE


def test_the_page_shows_the_files_as_they_are_written() -> None:
    page = (REPOSITORY / "docs" / "log-format.md").read_text(encoding="utf-8")
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    credential = ScramCredential(4096, b"salt", stored_key, hmac.digest(salted, b"Server Key", "sha256"))
    entity = frozenset({("user", "alice"), ("client-id", None)})
    lines = encode_credentials({("alice", 1): credential}) + encode_quotas(
        {entity: {"consumer_byte_rate": 1000.0}}
    )
    lines += encode_acls(frozenset({READS})) + encode_tokens(SOME)
    lines += encode_listener_stores(STORE)
    assert [line for line in lines.decode().splitlines() if f"    {line}\n" not in page] == []


class SeenModes(DiskFiles):
    """Notes with what mode each file gets its name."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.modes: dict[str, int] = {}

    def rename(self, source: str, target: str) -> None:
        self.modes[source] = mode(Path(self.root, source))
        super().rename(source, target)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_reads_credentials(tmp_path: Path) -> None:
    """They were written with the mode of every other file, 0644."""
    umask = os.umask(0o022)
    try:
        files = SeenModes(tmp_path)
        directory = DataDirectory(files)
        (tmp_path / f"{CREDENTIALS}.tmp").touch(0o644)  # what could not be removed
        directory.clients.set_credentials(ALICE)
        directory.clients.set_quotas(FEW)
        directory.close()
        modes = [mode(tmp_path / name) for name in (CREDENTIALS, QUOTAS)]
    finally:
        os.umask(umask)
    assert files.modes[f"{CREDENTIALS}.tmp"] == 0o600
    assert modes == [0o600, 0o644]


def test_credentials_that_others_could_read_are_closed_to_them_by_a_start_and_by_a_change(
    tmp_path: Path,
) -> None:
    path = tmp_path / CREDENTIALS
    path.write_bytes(encode_credentials(ALICE))
    path.chmod(0o644)
    directory = DataDirectory(DiskFiles(tmp_path))
    assert mode(path) == 0o600
    path.chmod(0o644)
    directory.clients.set_credentials(BOTH)
    directory.close()
    assert mode(path) == 0o600


def test_no_secret_is_shown() -> None:
    assert repr(ALICE) == "{('alice', 1): ScramCredential(iterations=4096, …)}"


@pytest.mark.parametrize(
    ("name", "data"),
    [(CREDENTIALS, encode_credentials(BOTH)), (QUOTAS, encode_quotas(MANY)), (ACLS, encode_acls(RULES))],
)
def test_a_damaged_file_stops_the_start_with_file_and_position(name: str, data: bytes) -> None:
    second = data.index(b"\n") + 1
    third = data.index(b"\n", second) + 1
    cases = [
        (data[:10] + b"x" + data[11:], 0),
        (data[: second + 5] + b"x" + data[second + 6 :], second),
        (data[: third - 1], second),
        (data[:third], 0),
        (data + data[second:third], 0),
        (b"", 0),
    ]
    files = MemoryFiles()
    opened(files)
    for damaged, position in cases:
        write(files, name, damaged)
        with pytest.raises(StorageError) as caught:
            DataDirectory(files)
        assert (caught.value.path, caught.value.position) == (name, position)


@pytest.mark.parametrize(
    ("name", "data", "decode"),
    [
        (CREDENTIALS, encode_credentials(BOTH), decode_credentials),
        (QUOTAS, encode_quotas(MANY), decode_quotas),
        (ACLS, encode_acls(RULES), decode_acls),
    ],
)
def test_every_bit_counts(name: str, data: bytes, decode: Callable[[bytes, str], object]) -> None:
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(StorageError):
                decode(bytes(damaged), name)


@pytest.mark.parametrize(
    ("rows", "decode"),
    [
        ([{"version": 1, "credentials": 1}, {"user": "alice"}], decode_credentials),
        ([{"version": 1, "credentials": 0}, {"user": "alice"}], decode_credentials),
        ([{"version": 2, "credentials": 0}], decode_credentials),
        ([{"version": 1, "entities": 1}, {"entity": 7, "quotas": {}}], decode_quotas),
        ([{"version": 1, "entities": 2}, *[{"entity": {}, "quotas": {}}] * 2], decode_quotas),
        ([{"version": 1, "acls": 1}, {"name": "orders"}], decode_acls),
        ([{"version": 1, "acls": 1}, READS.texts() | {"operation": "FLY"}], decode_acls),
        ([{"version": 1, "acls": 2}, *[READS.texts()] * 2], decode_acls),
    ],
)
def test_lines_with_checksums_are_not_believed_whatever_they_say(
    rows: list[dict[str, object]], decode: Callable[[bytes, str], object]
) -> None:
    with pytest.raises(StorageError):
        decode(b"".join(map(encode_line, rows)), "file")


@pytest.mark.parametrize("stuck", [False, True], ids=["refused once", "refused twice"])
@pytest.mark.parametrize(("before", "after"), [({}, BOTH), (ALICE, {})], ids=["set", "removed"])
def test_what_the_disk_refused_is_not_in_force_after_a_stop(
    before: Credentials, after: Credentials, stuck: bool
) -> None:
    files = FaultyFiles()
    directory = DataDirectory(files)
    directory.clients.set_credentials(before)
    files.only = lambda operation, path: operation == "sync_directory" or (stuck and files.failed)
    files.calls.clear()
    files.fail_at, files.stuck = 1, stuck
    with pytest.raises(StorageError, match="injected"):
        directory.clients.set_credentials(after)
    files.fail_at, files.stuck, files.failed = 0, False, False
    assert directory.clients.credentials == before
    directory.close()
    assert DataDirectory(files).clients.credentials == before


def test_a_crash_at_any_call_leaves_the_old_or_the_new() -> None:
    found = set()
    for fail_at in range(1, 40):
        files = FaultyFiles(crash=True)
        directory = DataDirectory(files)
        directory.clients.set_credentials(ALICE)
        directory.clients.set_quotas(FEW)
        files.calls.clear()
        files.fail_at = fail_at
        try:
            directory.clients.set_credentials(BOTH)
            directory.clients.set_quotas(MANY)
        except Crash:
            pass
        else:
            break
        after = DataDirectory(files.copy())
        found.add((after.clients.credentials == BOTH, after.clients.quotas == MANY))
        assert after.clients.credentials in (ALICE, BOTH)
        assert after.clients.quotas in (FEW, MANY)
        assert not [name for name in after.files.list_directory("") if name.endswith(".tmp")]
    assert found == {(False, False), (True, False), (True, True)}
