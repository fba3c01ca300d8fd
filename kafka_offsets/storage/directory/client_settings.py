"""Settings of users and clients: SCRAM credentials, quotas, ACLs and delegation tokens, each kind in its own file.

`scram-credentials` has a line for each user and mechanism, with the same fields as in Kafka (RFC 5802): the salt, and
the two keys that are derived from the salted password, in base64. The password is neither stored nor ever sent. Only
the owner of the file may read it.

    {"version": 1, "credentials": 1} 7c85f8de
    {"user": "alice", "mechanism": 1, "iterations": 4096, "salt": "c2FsdA==", "stored_key": "…", "server_key": "…"} …

`client-quotas` has a line for each entity; null means the default.

    {"version": 1, "entities": 1} ff6fd1f2
    {"entity": {"client-id": null, "user": "alice"}, "quotas": {"consumer_byte_rate": 1000.0}} …

`acls` has a line for each ACL, with the names of Kafka's enums.

    {"version": 1, "acls": 1} cf6f5d2d
    {"resource_type": "TOPIC", "name": "orders", "pattern_type": "LITERAL", "principal": "User:alice", "host": "*", …} …

`delegation-tokens` has a line for each token, with Kafka's names; the secrets of tokens are not stored.

    {"version": 1, "tokens": 1} 2d6cc2a3
    {"tokenId": "…", "owner": "User:alice", "tokenRequester": "User:alice", "renewers": ["User:bob"], …} …

`listener-stores` has a line for each key of a listener's keystore or truststore that was changed while the broker ran.
It has passwords, so only the owner of the file may read it.

    {"version": 1, "keys": 1} 78501e47
    {"name": "listener.name.internal.ssl.keystore.location", "value": "/etc/kafka/new.pem"} …

The lines are those of `checked_lines`. The first change creates a file; each change replaces it atomically.
Sources: UserScramCredentialRecord, ClientQuotaRecord and AccessControlEntryRecord of Kafka 4.3; KIP-554, KIP-546.
"""

from base64 import b64decode, b64encode
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

from kafka_offsets.errors import StorageError
from kafka_offsets.security.acls import AclBinding, acl_of_texts
from kafka_offsets.security.credential import Credentials, ScramCredential
from kafka_offsets.security.delegation_token import Tokens, token_of_form
from kafka_offsets.storage.files.checked_lines import VERSION, Row, decode_lines, encode_line
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.files.kept_file import KeptFile

CREDENTIALS = "scram-credentials"
QUOTAS = "client-quotas"
ACLS = "acls"
TOKENS = "delegation-tokens"
STORES = "listener-stores"


Entity = frozenset[tuple[str, str | None]]
"""Type and name of each part; None for the default."""

Quotas = Mapping[Entity, Mapping[str, float]]
"""By entity and key; an entity without quotas has no entry."""

Acls = frozenset[AclBinding]


class ClientSettings:
    """The stored settings of clients and users, as of the last change that the disk accepted.

    names  of the files in the directory
    Raises StorageError, with file and position, when one of its files is damaged.
    """

    def __init__(self, files: Files, names: Container[str]) -> None:
        """Read the stored settings."""
        self._credentials = KeptFile(files, CREDENTIALS, exists=CREDENTIALS in names, private=True)
        self._quotas = KeptFile(files, QUOTAS, exists=QUOTAS in names)
        self._acls = KeptFile(files, ACLS, exists=ACLS in names)
        self._tokens = KeptFile(files, TOKENS, exists=TOKENS in names, private=True)
        self.credentials: Credentials = MappingProxyType({})
        self.quotas: Quotas = MappingProxyType({})
        self.acls: Acls = frozenset()
        self.tokens: Tokens = MappingProxyType({})
        self._stores = KeptFile(files, STORES, exists=STORES in names, private=True)
        self.listener_stores: Mapping[str, str] = MappingProxyType({})
        if self._stores.content is not None:
            self.listener_stores = decode_listener_stores(self._stores.content, STORES)
        if self._credentials.content is not None:
            self.credentials = decode_credentials(self._credentials.content, CREDENTIALS)
        if self._quotas.content is not None:
            self.quotas = decode_quotas(self._quotas.content, QUOTAS)
        if self._acls.content is not None:
            self.acls = decode_acls(self._acls.content, ACLS)
        if self._tokens.content is not None:
            self.tokens = decode_tokens(self._tokens.content, TOKENS)

    def set_credentials(self, credentials: Credentials) -> None:
        """Replace all credentials. A change costs a sync. StorageError leaves them unchanged."""
        if credentials or self._credentials.content is not None:
            self._credentials.replace(encode_credentials(credentials))
        else:
            self._credentials.restore()
        self.credentials = MappingProxyType(dict(credentials))

    def set_quotas(self, quotas: Quotas) -> None:
        """Replace all quotas. A change costs a sync. StorageError leaves them unchanged."""
        if quotas or self._quotas.content is not None:
            self._quotas.replace(encode_quotas(quotas))
        else:
            self._quotas.restore()
        self.quotas = MappingProxyType(dict(quotas))

    def set_acls(self, acls: Iterable[AclBinding]) -> None:
        """Replace all ACLs. A change costs a sync. StorageError leaves them unchanged."""
        after = frozenset(acls)
        if after or self._acls.content is not None:
            self._acls.replace(encode_acls(after))
        else:
            self._acls.restore()
        self.acls = after

    def set_tokens(self, tokens: Tokens) -> None:
        """Replace all delegation tokens. A change costs a sync. StorageError leaves them unchanged."""
        if tokens or self._tokens.content is not None:
            self._tokens.replace(encode_tokens(tokens))
        else:
            self._tokens.restore()
        self.tokens = MappingProxyType(dict(tokens))

    def set_listener_stores(self, keys: Mapping[str, str]) -> None:
        """Replace all changed keys of listeners. A change costs a sync. StorageError leaves them unchanged."""
        if keys or self._stores.content is not None:
            self._stores.replace(encode_listener_stores(keys))
        else:
            self._stores.restore()
        self.listener_stores = MappingProxyType(dict(keys))

    def restore(self) -> None:
        """Write the current content again if a refusal has left the disk in an unknown state. Raises StorageError."""
        self._credentials.restore()
        self._quotas.restore()
        self._acls.restore()
        self._tokens.restore()
        self._stores.restore()


def encode_credentials(credentials: Credentials) -> bytes:
    """Return the bytes of the file of credentials."""
    lines = [encode_line({"version": VERSION, "credentials": len(credentials)})]
    for (user, mechanism), credential in sorted(credentials.items()):
        row: Row = {"user": user, "mechanism": mechanism, "iterations": credential.iterations}
        for name in ("salt", "stored_key", "server_key"):
            row[name] = b64encode(getattr(credential, name)).decode()
        lines.append(encode_line(row))
    return b"".join(lines)


def decode_credentials(data: bytes, path: str) -> Credentials:
    """Read the file of credentials; StorageError with the position of the line that is damaged."""
    _, rows = decode_lines(data, path, "credentials")
    try:
        credentials = {
            (str(row["user"]), int(row["mechanism"])): ScramCredential(
                int(row["iterations"]),
                *(b64decode(row[name], validate=True) for name in ("salt", "stored_key", "server_key")),
            )
            for row in rows
        }
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"a field is missing or wrong: {error}", path, 0) from error
    if len(credentials) != len(rows):
        raise StorageError("a credential occurs twice", path, 0)
    return MappingProxyType(credentials)


def encode_quotas(quotas: Quotas) -> bytes:
    """Return the bytes of the file of quotas."""
    rows: list[Row] = [
        {"entity": dict(sorted(entity)), "quotas": dict(sorted(values.items()))}
        for entity, values in quotas.items()
    ]
    lines = sorted(map(encode_line, rows))
    return b"".join([encode_line({"version": VERSION, "entities": len(lines)}), *lines])


def decode_quotas(data: bytes, path: str) -> Quotas:
    """Read the file of quotas; StorageError with the position of the line that is damaged."""
    _, rows = decode_lines(data, path, "entities")
    try:
        quotas = {
            frozenset(row["entity"].items()): {str(key): float(value) for key, value in row["quotas"].items()}
            for row in rows
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"a field is missing or wrong: {error}", path, 0) from error
    if len(quotas) != len(rows):
        raise StorageError("an entity occurs twice", path, 0)
    return MappingProxyType(quotas)


def encode_acls(acls: Acls) -> bytes:
    """Return the bytes of the file of ACLs."""
    lines = [encode_line({"version": VERSION, "acls": len(acls)})]
    lines += [encode_line(dict(acl.texts())) for acl in sorted(acls)]
    return b"".join(lines)


def decode_acls(data: bytes, path: str) -> Acls:
    """Read the file of ACLs; StorageError with the position of the line that is damaged."""
    _, rows = decode_lines(data, path, "acls")
    try:
        acls = frozenset(acl_of_texts(row) for row in rows)
    except (KeyError, TypeError) as error:
        raise StorageError(f"a field is missing or wrong: {error}", path, 0) from error
    if len(acls) != len(rows):
        raise StorageError("an ACL occurs twice", path, 0)
    return acls


def encode_tokens(tokens: Tokens) -> bytes:
    """Return the bytes of the file of delegation tokens."""
    lines = [encode_line({"version": VERSION, "tokens": len(tokens)})]
    lines += [encode_line(token.form()) for _, token in sorted(tokens.items())]
    return b"".join(lines)


def decode_tokens(data: bytes, path: str) -> Tokens:
    """Read the file of delegation tokens; StorageError with the position of the line that is damaged."""
    _, rows = decode_lines(data, path, "tokens")
    try:
        tokens = {token.token_id: token for token in map(token_of_form, rows)}
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"a field is missing or wrong: {error}", path, 0) from error
    if len(tokens) != len(rows):
        raise StorageError("a delegation token occurs twice", path, 0)
    return MappingProxyType(tokens)


def encode_listener_stores(keys: Mapping[str, str]) -> bytes:
    """Return the bytes of the file of changed keys of listeners."""
    lines = [encode_line({"version": VERSION, "keys": len(keys)})]
    lines += [encode_line({"name": name, "value": value}) for name, value in sorted(keys.items())]
    return b"".join(lines)


def decode_listener_stores(data: bytes, path: str) -> Mapping[str, str]:
    """Read the file of changed keys; StorageError with the position of the line that is damaged, and no value."""
    _, rows = decode_lines(data, path, "keys")
    try:
        stores = {str(row["name"]): str(row["value"]) for row in rows}
    except KeyError as error:
        raise StorageError(f"a field is missing: {error}", path, 0) from error
    if len(stores) != len(rows):
        raise StorageError("a key occurs twice", path, 0)
    return MappingProxyType(stores)
