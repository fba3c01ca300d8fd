"""Cluster changes: which znodes a change of the metadata creates, replaces and deletes, and what they hold together.

Everything here is a function of values, or an operation, which the owner of a session carries out (see `operations`).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.image import Brokers, ClusterImage, ClusterTopic, Delta
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.metadata.store import AnotherControllerError
from kafka_offsets.replication.partition_state import PartitionState
from kafka_offsets.zookeeper import cluster_znodes as znodes
from kafka_offsets.zookeeper.operations import (
    MOST_BYTES,
    Operation,
    RequestRefusedError,
    UnavailableError,
    bytes_of,
    names_of,
)
from kafka_offsets.zookeeper.requests import (
    Change,
    Check,
    Children,
    Create,
    Delete,
    Get,
    Multi,
    Outcome,
    SetData,
    Sync,
    Znode,
)

_TOGETHER = 1000
_ATTEMPTS = 3

T = TypeVar("T")


class ControllerTerm(NamedTuple):
    """The term of one controller, which ends when `/controller_epoch` changes.

    epoch          of the controller
    epoch_version  the version of that znode
    """

    broker_id: int
    epoch: int
    epoch_version: int

    @property
    def check(self) -> Check:
        """What makes a change fail after the end of this term."""
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class StoredMetadata(NamedTuple):
    """What ZooKeeper has.

    versions  of the znodes that exist, by path; those of states are the partition epochs
    """

    image: ClusterImage
    versions: dict[str, int]


# -- changes


class Changes:
    """The changes that bring ZooKeeper from what it has to a new image, in groups that must not be torn apart."""

    def __init__(self, stored: StoredMetadata, term: ControllerTerm) -> None:
        self._old, self._term = stored.image, term
        self.versions = dict(stored.versions)
        self.groups: list[list[Change]] = []

    def add(self, delta: Delta) -> ClusterImage:
        """Add a change; return the new image."""
        new = self._old.copy()
        new.apply(delta)
        names = [topic.name for topic in (*delta.deleted, *delta.created)]
        whole = dict.fromkeys(names)
        for name in whole:
            self._in_group(self._topic, self._old.topics.get(name), new.topics.get(name))
        for topic_partition, _ in delta.partitions:
            if topic_partition.topic not in whole:
                old, topic = self._old.topics[topic_partition.topic], new.topics[topic_partition.topic]
                self._in_group(self._partition, old, topic, topic_partition.partition)
        if delta.brokers is not None:
            self._in_group(self._write, znodes.REGISTRATIONS, znodes.encode_registrations(delta.brokers))
        if delta.settings is not None:
            self._in_group(self._settings, self._old.settings, delta.settings)
        return new

    def add_producer_ids(self, next_id: int) -> None:
        """Add a new block of producer ids."""
        self._in_group(
            self._write, znodes.PRODUCER_IDS, znodes.encode_producer_ids(self._term.broker_id, next_id)
        )

    def requests(self) -> list[Multi]:
        """Return the changes as few requests, each with the check of the term. StorageError: a group is too large."""
        groups: list[list[Change]] = []
        left = 0
        for group in self.groups:
            size = bytes_of(group)
            if size > MOST_BYTES:
                raise StorageError(
                    f"{group[0].path} and {len(group) - 1} more do not fit into one request", "ZooKeeper"
                )
            if not groups or size > left:
                groups.append([self._term.check])
                left = MOST_BYTES
            groups[-1] += group
            left -= size
        return [Multi(tuple(changes)) for changes in groups]

    def _in_group(self, add: Callable[..., None], *arguments: object) -> None:
        self.groups.append([])
        add(*arguments)
        if not self.groups[-1]:
            del self.groups[-1]

    def _write(self, path: str, data: bytes) -> None:
        version = self.versions.get(path)
        if version is None:
            self.groups[-1].append(Create(path, data))
            self.versions[path] = 0
        else:
            self.groups[-1].append(SetData(path, data, version))
            self.versions[path] = version + 1

    def _delete(self, path: str) -> None:
        self.groups[-1].append(Delete(path, self.versions.pop(path)))

    def _topic(self, old: ClusterTopic | None, new: ClusterTopic | None) -> None:
        if old is not None and (new is None or new.topic_id != old.topic_id):
            self._delete_topic(old)
            old = None
        if new is None:
            return
        old_count = 0 if old is None else len(old.partitions)
        if old is None:
            self._write(znodes.topic_path(new.name), znodes.encode_topic(new))
            self._write(znodes.partitions_path(new.name), b"")
        for index in range(len(new.partitions)):
            if index >= old_count:
                self._write(znodes.partition_path(new.name, index), b"")
            self._state(old, new, index)
        if old is not None and old_count != len(new.partitions):
            self._write(znodes.topic_path(new.name), znodes.encode_topic(new))
        if old is None or old.configs != new.configs:
            self._write(znodes.topic_config_path(new.name), znodes.encode_configs(new.configs))

    def _delete_topic(self, topic: ClusterTopic) -> None:
        for index in range(len(topic.partitions)):
            self._delete(znodes.state_path(topic.name, index))
            self._delete(znodes.partition_path(topic.name, index))
        self._delete(znodes.partitions_path(topic.name))
        self._delete(znodes.topic_path(topic.name))
        self._delete(znodes.topic_config_path(topic.name))

    def _partition(self, old: ClusterTopic, new: ClusterTopic, index: int) -> None:
        self._state(old, new, index)
        before, after = old.partitions[index], new.partitions[index]
        if (before.replicas, before.adding, before.removing) != (
            after.replicas,
            after.adding,
            after.removing,
        ):
            self._write(znodes.topic_path(new.name), znodes.encode_topic(new))

    def _state(self, old: ClusterTopic | None, new: ClusterTopic, index: int) -> None:
        """Write a state until its znode has the partition epoch as its version: a change may be of several epochs."""
        state = new.partitions[index]
        if old is not None and index < len(old.partitions) and old.partitions[index] == state:
            return
        path, data = znodes.state_path(new.name, index), znodes.encode_state(state, self._term.epoch)
        assert self.versions.get(path, -1) < state.partition_epoch, f"{path}: no new partition epoch"
        while self.versions.get(path, -1) < state.partition_epoch:
            self._write(path, data)

    def _settings(self, old: ClusterSettings, new: ClusterSettings) -> None:
        before, after = znodes.settings_tree(old), znodes.settings_tree(new)
        for path in sorted(after):
            if before.get(path) != after[path]:
                self._write(path, after[path])
        for path in sorted(before, reverse=True):
            if path not in after:
                self._delete(path)


def write(requests: Iterable[Multi], term: ControllerTerm) -> Operation[None]:
    """Make changes, one request after the other.

    Raises AnotherControllerError if another controller is elected, and if ZooKeeper has perhaps a part of the changes:
    either way this controller must not decide any longer. Raises UnavailableError and RequestRefusedError if it has
    none.
    """
    is_first = True
    for request in requests:
        try:
            yield from _make(request, term)
        except (UnavailableError, RequestRefusedError) as error:
            if is_first:
                raise
            raise AnotherControllerError(f"a change is there in part: {error}", "ZooKeeper") from error
        is_first = False


def _make(request: Multi, term: ControllerTerm) -> Operation[None]:
    for _ in range(_ATTEMPTS):
        try:
            (outcome,) = yield [request]
        except UnavailableError:
            if (yield from _is_made(request)):
                # Or the next controller has made another one: then its term began before this look.
                yield from _check_term(term)
                return
            continue
        if isinstance(outcome, tuple):
            return
        yield from _check_term(term)
        raise AnotherControllerError(
            f"another program has changed {request.changes[1].path} or more ({outcome})", "ZooKeeper"
        )
    raise UnavailableError(f"the connection was lost at each of {_ATTEMPTS} attempts")


def _is_made(request: Multi) -> Operation[bool]:
    """Return whether a request whose answer was lost has had an effect: all of its changes have, or none."""
    change = request.changes[1]
    try:
        yield [Sync(change.path)]
        (outcome,) = yield [Get(change.path)]
    except UnavailableError as error:
        raise AnotherControllerError(
            f"the answer was lost, and it is unknown whether {change.path} has changed", "ZooKeeper"
        ) from error
    if isinstance(change, SetData):
        return isinstance(outcome, Znode) and outcome.version > change.version
    return isinstance(outcome, Znode) is isinstance(change, Create)


def _check_term(term: ControllerTerm) -> Operation[None]:
    try:
        (outcome,) = yield [Get(znodes.CONTROLLER_EPOCH)]
    except UnavailableError as error:
        raise AnotherControllerError(f"it cannot be reached: {error}", "ZooKeeper") from error
    if not isinstance(outcome, Znode) or outcome.version != term.epoch_version:
        raise AnotherControllerError(
            f"another controller is elected: the controller epoch is no longer {term.epoch}", "ZooKeeper"
        )


# -- loading


def load() -> Operation[StoredMetadata]:
    """Read everything. Raises StorageError, with the path, for a znode that cannot be understood."""
    versions: dict[str, int] = {}
    _, registrations, block, topics = yield [
        Sync("/"),
        Get(znodes.REGISTRATIONS),
        Get(znodes.PRODUCER_IDS),
        Children(znodes.TOPICS),
    ]
    image = ClusterImage()
    image.brokers = _read(
        znodes.REGISTRATIONS, registrations, versions, znodes.decode_registrations, Brokers(-1, {})
    )
    image.next_producer_id = _read(znodes.PRODUCER_IDS, block, versions, znodes.decode_producer_ids, 0)
    for name in names_of(topics):
        image.topics[name] = yield from _load_topic(name, versions)
    tree = yield from _load_settings(versions)
    try:
        image.settings = znodes.settings_of(tree)
    except ValueError as error:
        raise StorageError(str(error), "ZooKeeper: the settings") from error
    return StoredMetadata(image, versions)


def _load_topic(name: str, versions: dict[str, int]) -> Operation[ClusterTopic]:
    path, config_path = znodes.topic_path(name), znodes.topic_config_path(name)
    topic_znode, parent, configs = yield [Get(path), Get(znodes.partitions_path(name)), Get(config_path)]
    topic = _read(path, topic_znode, versions, znodes.decode_topic)
    _read(znodes.partitions_path(name), parent, versions, bytes)
    settings = _read(config_path, configs, versions, znodes.decode_configs)
    states = []
    for begin in range(0, len(topic.replicas), _TOGETHER):
        indexes = range(begin, min(begin + _TOGETHER, len(topic.replicas)))
        parents = yield [Get(znodes.partition_path(name, index)) for index in indexes]
        outcomes = yield [Get(znodes.state_path(name, index)) for index in indexes]
        for index, above, outcome in zip(indexes, parents, outcomes, strict=True):
            _read(znodes.partition_path(name, index), above, versions, bytes)
            version = outcome.version if isinstance(outcome, Znode) else -1

            def decode(data: bytes, index: int = index, version: int = version) -> PartitionState:
                return znodes.decode_state(data, version, topic, index)

            states.append(_read(znodes.state_path(name, index), outcome, versions, decode))
    return ClusterTopic(name, topic.topic_id, settings, tuple(states))


def _load_settings(versions: dict[str, int]) -> Operation[znodes.Tree]:
    kinds = (
        znodes.GROUP_CONFIGS,
        znodes.USERS,
        znodes.CLIENTS,
        znodes.IPS,
        znodes.DELEGATION_TOKENS,
        *znodes.ACL_PARENTS,
    )
    outcomes = yield [Children(kind) for kind in kinds]
    paths = [
        f"{kind}/{name}" for kind, outcome in zip(kinds, outcomes, strict=True) for name in names_of(outcome)
    ]
    users = [f"{path}/clients" for path in paths if path.startswith(f"{znodes.USERS}/")]
    for begin in range(0, len(users), _TOGETHER):
        chunk = users[begin : begin + _TOGETHER]
        outcomes = yield [Children(path) for path in chunk]
        for path, outcome in zip(chunk, outcomes, strict=True):
            if isinstance(outcome, tuple):
                paths += [path, *(f"{path}/{name}" for name in names_of(outcome))]
    tree: znodes.Tree = {}
    for begin in range(0, len(paths), _TOGETHER):
        chunk = paths[begin : begin + _TOGETHER]
        outcomes = yield [Get(path) for path in chunk]
        for path, outcome in zip(chunk, outcomes, strict=True):
            tree[path] = _read(path, outcome, versions, bytes)
    return tree


def _read(
    path: str,
    outcome: Outcome,
    versions: dict[str, int],
    decode: Callable[[bytes], T],
    missing: T | None = None,
) -> T:
    """Return what a znode holds, and note its version; `missing` if it does not exist. Raises StorageError."""
    if not isinstance(outcome, Znode):
        if missing is None:
            raise StorageError("this znode is missing", f"ZooKeeper: {path}")
        return missing
    versions[path] = outcome.version
    try:
        return decode(outcome.data)
    except ValueError as error:
        raise StorageError(str(error), f"ZooKeeper: {path}") from error
