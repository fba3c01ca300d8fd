"""Operations on znodes: generators that yield requests and receive their outcomes.

The caller decides how an operation waits: a broker continues when its loop gets the outcomes, a command blocks, a
test answers at once. No outcome that a generator receives is UNAVAILABLE or REFUSED: it gets an exception instead.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.zookeeper import znodes
from kafka_offsets.zookeeper.requests import (
    ANY_VERSION,
    Change,
    Children,
    Create,
    Delete,
    Get,
    Multi,
    Outcome,
    Problem,
    Request,
    SetData,
    Sync,
    Znode,
)
from kafka_offsets.zookeeper.znodes import OffsetName, UnreadableZnodeError

T = TypeVar("T")
Operation = Generator[Sequence[Request], list[Outcome], T]

MOST_BYTES = 900_000
"""The most that the changes of one Multi may take: ZooKeeper closes connections that send 1 MiB (jute.maxbuffer)."""

_CHANGE_BYTES = 64
"""What a change takes besides its path and its data, at most."""

_TOGETHER = 1000
"""How many znodes are read at once."""

_NO_OFFSET = -1

_ATTEMPTS = 20
"""How often a write is tried again because another client has changed the same znodes."""


class UnavailableError(KafkaOffsetsError):
    """ZooKeeper cannot be reached, or its response was lost."""

    def __init__(self, message: str = "ZooKeeper does not answer") -> None:
        super().__init__(message)


class ContendedError(UnavailableError):
    """Other clients change the same znodes again and again."""

    def __init__(self) -> None:
        super().__init__(
            f"znodes were changed by other clients at each of {_ATTEMPTS} attempts to write them"
        )


class RequestRefusedError(KafkaOffsetsError):
    """ZooKeeper refuses a request for good: it is too large, or there is no permission."""


class StoredOffset(NamedTuple):
    """A committed offset as ZooKeeper has it; see :class:`Znode`.

    problem  why the data of the znode is no offset, which is -1 then: it can be written and deleted like any other
    """

    offset: int
    version: int
    modified_ms: int
    problem: UnreadableZnodeError | None = None


class GroupTree(NamedTuple):
    """The znodes of one group.

    exists        whether the group has a znode
    offsets       all its committed offsets
    is_alive      whether a consumer of ZooKeeper times is registered in the group
    empty_topics  topics that have a znode and no offset
    metadata      data of the znode with the group's configuration and ownership, or None
    """

    exists: bool
    offsets: dict[OffsetName, StoredOffset]
    is_alive: bool
    empty_topics: tuple[str, ...]
    metadata: bytes | None


def run(
    operation: Operation[T],
    submit: Callable[[Sequence[Request], Callable[[list[Outcome]], None]], None],
    ended: Callable[[T | Exception], None],
) -> None:
    """Send the requests of an operation as outcomes come; pass its result or error to `ended`."""
    taken = 0

    def resume(outcomes: list[Outcome] | None) -> None:
        """Take the next step with the outcomes of the previous one, None for the first step."""
        nonlocal taken
        taken += 1
        step = taken
        try:
            if outcomes is None:
                requests = next(operation)
            elif Problem.UNAVAILABLE in outcomes:
                requests = operation.throw(UnavailableError())
            elif Problem.REFUSED in outcomes:
                requests = operation.throw(
                    RequestRefusedError("ZooKeeper refuses a request: see its permissions")
                )
            else:
                requests = operation.send(outcomes)
        except StopIteration as end:
            ended(end.value)
        except Exception as error:  # noqa: BLE001 - `ended` decides
            ended(error)
        else:
            try:
                submit(requests, resume)
            except Exception as error:
                if step != taken:  # the outcomes came at once: this is an error of `ended`
                    raise
                ended(error)

    resume(None)


# -- reading


def read_offsets(names: Iterable[OffsetName]) -> Operation[dict[OffsetName, StoredOffset]]:
    """Read some offsets; those that are not committed are missing in the result."""
    all_names = list(names)
    stored_offsets: dict[OffsetName, StoredOffset] = {}
    for begin in range(0, len(all_names), _TOGETHER):
        chunk = all_names[begin : begin + _TOGETHER]
        paths = [znodes.offset_path(name) for name in chunk]
        outcomes = yield [Get(path) for path in paths]
        for name, path, outcome in zip(chunk, paths, outcomes, strict=True):
            if isinstance(outcome, Znode):
                stored_offsets[name] = _stored_offset(path, outcome)
    return stored_offsets


def _stored_offset(path: str, znode: Znode) -> StoredOffset:
    try:
        return StoredOffset(znodes.parse_offset(path, znode.data), znode.version, znode.modified_ms)
    except UnreadableZnodeError as error:
        return StoredOffset(_NO_OFFSET, znode.version, znode.modified_ms, error)


def check_readable(found: Mapping[OffsetName, StoredOffset]) -> None:
    """Raise UnreadableZnodeError if an offset was not read."""
    for stored in found.values():
        if stored.problem is not None:
            raise stored.problem


def read_group(group: str) -> Operation[GroupTree]:
    """Read everything about a group, after what anybody has written so far."""
    yield [Sync(znodes.group_path(group))]
    top, topics, ids, metadata = yield [
        Children(znodes.group_path(group)),
        Children(znodes.offsets_path(group)),
        Children(znodes.ids_path(group)),
        Get(znodes.metadata_path(group)),
    ]
    names: list[OffsetName] = []
    empty = []
    for topic, partitions in (yield from _children_of(group, names_of(topics))).items():
        indexes = [partition for child in partitions if (partition := znodes.partition_of(child)) is not None]
        names += [OffsetName(group, topic, partition) for partition in sorted(indexes)]
        if not partitions:
            empty.append(topic)
    offsets = yield from read_offsets(names)
    data = metadata.data if isinstance(metadata, Znode) else None
    return GroupTree(top is not Problem.NO_NODE, offsets, bool(names_of(ids)), tuple(empty), data)


def _children_of(group: str, topics: Sequence[str]) -> Operation[dict[str, tuple[str, ...]]]:
    children: dict[str, tuple[str, ...]] = {}
    for begin in range(0, len(topics), _TOGETHER):
        chunk = topics[begin : begin + _TOGETHER]
        outcomes = yield [Children(znodes.topic_path(group, topic)) for topic in chunk]
        children |= {topic: names_of(outcome) for topic, outcome in zip(chunk, outcomes, strict=True)}
    return children


def list_groups() -> Operation[tuple[str, ...]]:
    """Return the names of all groups."""
    _, groups = yield [Sync(znodes.CONSUMERS), Children(znodes.CONSUMERS)]
    return tuple(sorted(names_of(groups)))


def names_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the children that were listed, in a fixed order; none if there is no such znode."""
    return tuple(sorted(cast("tuple[str, ...]", outcome))) if isinstance(outcome, tuple) else ()


# -- writing

Wanted = Mapping[OffsetName, int | None]
"""The offset that each name is to have; None: no offset."""


def size_of(wanted: Wanted) -> int:
    """Return about how many bytes the changes for offsets take."""
    return sum(len(znodes.offset_path(name)) + _CHANGE_BYTES for name in wanted)


def bytes_of(changes: Iterable[Change]) -> int:
    """Return about how many bytes changes take in a request."""
    return sum(
        len(change.path.encode())
        + _CHANGE_BYTES
        + (len(change.data) if isinstance(change, Create | SetData) else 0)
        for change in changes
    )


def _together(changes: Sequence[Change]) -> list[Request]:
    """Return the request that makes all changes. Raises RequestRefusedError if it is too large."""
    if bytes_of(changes) > MOST_BYTES:
        raise RequestRefusedError(f"{len(changes)} changes do not fit into one request to ZooKeeper")
    return [Multi(tuple(changes))]


def write_offsets(wanted: Wanted, known: Mapping[OffsetName, int]) -> Operation[dict[OffsetName, int]]:
    """Write offsets, all or none; return the new versions.

    known  versions of the znodes that are known to exist; the others are read first
    Every change names the version that it replaces. So a change whose answer was lost, and which ZooKeeper carries out
    late, cannot replace a later one. After a lost answer the offsets are read back: they are written already, or they
    are written again.
    Raises RequestRefusedError if the changes do not fit into one request.
    """
    versions: dict[OffsetName, int] | None = {name: known[name] for name in wanted if name in known}
    for _ in range(_ATTEMPTS):
        if versions is None or len(versions) < len(wanted):
            missing = [name for name in wanted if versions is None or name not in versions]
            stored_offsets = yield from read_offsets(missing)
            versions = {
                **(versions or {}),
                **{name: stored.version for name, stored in stored_offsets.items()},
            }
        paths, changes = yield from changes_for(wanted, versions)
        if not changes:
            return {}
        try:
            (outcome,) = yield _together(changes)
        except UnavailableError:
            done = yield from _read_back(wanted)
            if done is not None:
                return done
            versions = None
            continue
        if isinstance(outcome, tuple):
            written = dict(zip(paths, outcome, strict=True))
            return {name: cast("int", written[znodes.offset_path(name)]) for name in written_names_of(wanted)}
        versions = None
    raise ContendedError


def written_names_of(wanted: Wanted) -> list[OffsetName]:
    """Return the names that get an offset."""
    return [name for name, offset in wanted.items() if offset is not None]


def write_if_unchanged(
    wanted: Wanted, known: Mapping[OffsetName, int]
) -> Operation[dict[OffsetName, int] | None]:
    """Write offsets if no znode has another version than known, or exists though it is not known; otherwise None.

    A lost answer is not read back: offsets that are as wanted may have been written by another client, and of two
    clients with the same condition only one may succeed. The run ends with UnavailableError.
    """
    paths, changes = yield from changes_for(wanted, known)
    if not changes:
        return {}
    (outcome,) = yield _together(changes)
    if isinstance(outcome, tuple):
        written = dict(zip(paths, outcome, strict=True))
        return {name: cast("int", written[znodes.offset_path(name)]) for name in written_names_of(wanted)}
    return None


def delete_unchanged(known: Mapping[OffsetName, int]) -> Operation[dict[OffsetName, StoredOffset]]:
    """Delete offsets whose znodes still have the known versions; return those that have changed, and stay."""
    kept: dict[OffsetName, StoredOffset] = {}
    remaining = dict(known)
    for _ in range(_ATTEMPTS):
        if not remaining:
            return kept
        deletions = [Delete(znodes.offset_path(name), version) for name, version in remaining.items()]
        (outcome,) = yield _together(deletions)
        if isinstance(outcome, tuple):
            return kept
        stored_offsets = yield from read_offsets(remaining)
        kept |= {name: stored for name, stored in stored_offsets.items() if stored.version != remaining[name]}
        remaining = {name: remaining[name] for name in stored_offsets if name not in kept}
    raise ContendedError


def _read_back(offsets: Wanted) -> Operation[dict[OffsetName, int] | None]:
    """Return the versions of the offsets if all of them are as wanted, otherwise None."""
    yield [Sync(znodes.CONSUMERS)]
    stored_offsets = yield from read_offsets(offsets)
    for name, offset in offsets.items():
        stored = stored_offsets.get(name)
        if (None if stored is None else stored.offset) != offset:
            return None
    return {name: stored.version for name, stored in stored_offsets.items()}


def changes_for(
    wanted: Wanted, versions: Mapping[OffsetName, int]
) -> Operation[tuple[list[str], list[Change]]]:
    """Return the changes that write offsets, with their paths; the parents of new offsets are created as well.

    versions  of the znodes that exist
    """
    changes: list[Change] = []
    new: list[tuple[str, bytes]] = []
    siblings = {(name.group, name.topic) for name in versions}
    parents: dict[str, None] = {}
    for name, offset in wanted.items():
        path, version = znodes.offset_path(name), versions.get(name)
        if offset is None:
            if version is not None:
                changes.append(Delete(path, version))
        elif version is not None:
            changes.append(SetData(path, znodes.offset_data(offset), version))
        else:
            new.append((path, znodes.offset_data(offset)))
            if (name.group, name.topic) not in siblings:
                parents |= dict.fromkeys(_parents(name))
    missing: list[Change] = []
    if parents:
        outcomes = yield [Get(path) for path in parents]
        pairs = zip(parents, outcomes, strict=True)
        missing = [Create(path, b"") for path, outcome in pairs if outcome is Problem.NO_NODE]
    changes = [*missing, *changes, *(Create(path, data) for path, data in new)]
    return [change.path for change in changes], changes


def _parents(name: OffsetName) -> tuple[str, ...]:
    group = name.group
    offsets, topic = znodes.offsets_path(group), znodes.topic_path(group, name.topic)
    return znodes.CONSUMERS, znodes.group_path(group), offsets, topic


# -- removing what is empty


def remove_empty(group: str) -> Operation[bool]:
    """Remove the znodes of a group that lead to nothing, and the group's own if nothing is left; return whether it is.

    ZooKeeper deletes only what has no children, so nothing that another client adds in the meantime is lost.
    """
    for parent in (znodes.offsets_path(group), znodes.owners_path(group)):
        (topics,) = yield [Children(parent)]
        paths = [f"{parent}/{topic}" for topic in names_of(topics)]
        yield from _delete_childless(paths)
    top = znodes.group_path(group)
    yield from _delete_childless(
        [znodes.offsets_path(group), znodes.owners_path(group), znodes.ids_path(group)]
    )
    yield from _delete_childless([top])
    (left,) = yield [Get(top)]
    return left is Problem.NO_NODE


def _delete_childless(paths: list[str]) -> Operation[None]:
    for begin in range(0, len(paths), _TOGETHER):
        chunk = paths[begin : begin + _TOGETHER]
        outcomes = yield [Children(path) for path in chunk]
        empty = [path for path, outcome in zip(chunk, outcomes, strict=True) if outcome == ()]
        if empty:
            yield [Multi((Delete(path, ANY_VERSION),)) for path in empty]


# -- the metadata of a group


def write_metadata(group: str, data: bytes | None, is_newer: Callable[[bytes], bool]) -> Operation[None]:
    """Write the configuration and ownership of a group, or remove it.

    is_newer  whether what is stored must stay: another coordinator has written it since
    """
    path = znodes.metadata_path(group)
    for _ in range(_ATTEMPTS):
        parents = (znodes.CONSUMERS, znodes.group_path(group))
        consumers, top, node = yield [Get(parents[0]), Get(parents[1]), Get(path)]
        if data is not None and isinstance(node, Znode) and is_newer(node.data):
            return
        changes: list[Change] = []
        if data is not None:
            pairs = zip(parents, (consumers, top), strict=True)
            changes = [Create(parent, b"") for parent, outcome in pairs if outcome is Problem.NO_NODE]
        if isinstance(node, Znode):
            changes.append(Delete(path, node.version) if data is None else SetData(path, data, node.version))
        elif data is not None:
            changes.append(Create(path, data))
        if not changes:
            return
        (outcome,) = yield _together(changes)
        if isinstance(outcome, tuple):
            return
    raise ContendedError
