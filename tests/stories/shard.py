"""Cases of committed offsets at the level of a shard, as text: tests/stories/offsets_shard.txt.

A case is a title, then blocks: commands, `----`, what the shard answers and appends to the log::

    # KIP-496: offsets of a topic without subscribers may be deleted.

    commit group=g topic=t partition=0 offset=42
    ----
    reply t-0 NONE
    append g/t/0 = 42

The blocks of a case share one shard, on a clock that `advance` moves. Each topic has the partitions 0 to 3. Lists are
written with commas. `hold` keeps the log from being synced: decisions are answered by `sync`, or by `fail`.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafka_offsets.coordinator.offsets import deletion, expiry, transactional_offsets
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.coordinator.state.result import CoordinatorRecord, RequestContext
from kafka_offsets.errors import error_code_of
from kafka_offsets.protocol import conditions, messages
from tests.drivers.shard import Asked, ShardDriver, subscription

FETCH_VERSION = 8
CONSUMER_RECORDS = {
    3: "ConsumerGroupMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
}
Fields = dict[str, str]


class Case(NamedTuple):
    """One case of a file: its title and its text without the title."""

    title: str
    text: str

    def played(self) -> str:
        """Return the text with the answers that our shard gives."""
        player, blocks, asked = Player(), [], []
        for block in self.text.split("\n\n"):
            for command in block.partition("\n----")[0].splitlines():
                asked.append(command)
                if lines := player.carry_out(command):
                    blocks.append("\n".join([*asked, "----", *lines]))
                    asked = []
        assert not asked, f"{self.title}: nothing answers {asked}"
        return "\n\n".join(blocks)


def cases(text: str) -> Iterator[Case]:
    """Yield the cases of a file."""
    for part in ("\n" + text).split("\n# ")[1:]:
        title, _, rest = part.partition("\n")
        yield Case(title, rest.strip("\n"))


def file_of(cases: list[Case]) -> str:
    """Return the text of a file."""
    return "\n\n".join(f"# {case.title}\n\n{case.text}" for case in cases) + "\n"


class Player:
    """One shard that carries out commands."""

    def __init__(self) -> None:
        self.driver = ShardDriver(offset_metadata_max_bytes=10)
        self.shard = self.driver.shard
        self.shard.latest_record = self._latest_record
        self.began_ms = self.driver.clock.now().wall_ms
        self.members: dict[str, tuple[str, int]] = {}
        self.waiting: list[Asked] = []

    def carry_out(self, command: str) -> list[str]:
        """Carry out one command; return the lines of its answer."""
        verb, *words = command.split()
        fields = dict(word.split("=", 1) for word in words)
        handle: Callable[[Fields], list[str]] = getattr(self, "_" + verb.replace("-", "_"))
        durable = len(self.driver.durable)
        lines = handle(fields)
        assert not fields, f"{command}: unknown {sorted(fields)}"
        return lines + [
            f"append {self._record(record)}" for record in self.driver.durable[durable:] if record.key
        ]

    def _latest_record(self, key: bytes) -> CoordinatorRecord | None:
        """The last record of a key that is decided and not durable."""
        held = [record for result in self.driver.held for record in result.records if record.key == key]
        return held[-1] if held else None

    def _record(self, record: CoordinatorRecord) -> str:
        key = stored.parse_key(record.key)
        if isinstance(key, ConsumerKey):
            name = f"{CONSUMER_RECORDS[key.type]} {key.group}{key.name and f'/{key.name}'}"
            return f"{name} = {'null' if record.value is None else '...'}"
        if not isinstance(key, stored.OffsetKey):
            return f"group {key.group} = {'null' if record.value is None else 'its members'}"
        name = f"{key.group}/{key.topic}/{key.partition} = "
        if record.value is None:
            return name + "null"
        entry = stored.parse_offset_value(record.value, 0)
        more = [f" metadata={entry.metadata}"] if entry.metadata else []
        more += [f" leader_epoch={entry.leader_epoch}"] if entry.leader_epoch != -1 else []
        more += (
            [f" expires=+{entry.expire_timestamp - self.began_ms}"] if entry.expire_timestamp != -1 else []
        )
        return f"{name}{entry.offset}{''.join(more)}"

    def _request(self, cls: Any, fields: Fields, *more: Any, **named: Any) -> Any:
        """Return a commit of either kind: `member` is a name from `join`, or what stands for no member."""
        member, generation = self.members.get(fields.get("member", ""), (fields.get("member", ""), -1))
        fields.pop("member", None)
        generation = int(fields.pop("generation", generation))
        epoch, metadata = int(fields.pop("leader_epoch", -1)), fields.pop("metadata", "")
        partitions = fields.pop("partition").split(",")
        values = fields.pop("offset").split(",")
        expected = fields.pop("expect", "").split(",")
        made = []
        for index, offset in zip(partitions, values, strict=True):
            made.append(cls.Partition(int(index), int(offset)))
            made[-1].committed_leader_epoch, made[-1].committed_metadata = epoch, metadata
        for partition, value in zip(made, expected, strict=False):
            if value:
                conditions.put(partition, int(value))
        request = cls(*more, topics=[cls.Topic(fields.pop("topic"), partitions=made)], **named)
        request.member_id, request.group_instance_id = member, fields.pop("instance", None)
        if cls is messages.OffsetCommitRequest:
            request.generation_id_or_member_epoch = generation
        else:
            request.generation_id = generation
        return request

    def _replies(self, asked: Asked) -> list[str]:
        if asked.is_parked:
            self.waiting.append(asked)
            return ["waits for the log"]
        return [f"reply {line}" for line in self._answered(asked.answer)]

    def _answered(self, answer: Any) -> Iterator[str]:
        if getattr(answer, "error_code", 0):
            yield error_code_of(answer.error_code).name
        for topic in answer.topics:
            for partition in topic.partitions:
                found = (partition.unknown_tags or {}).get(conditions.FOUND_OFFSET)
                more = "" if found is None else f" found={struct.unpack('>q', found)[0]}"
                name = error_code_of(partition.error_code).name
                yield f"{topic.name}-{partition.partition_index} {name}{more}"

    # -- the commands

    def _commit(self, fields: Fields) -> list[str]:
        retention, version = int(fields.pop("retention", -1)), int(fields.pop("version", 9))
        request = self._request(messages.OffsetCommitRequest, fields, fields.pop("group"))
        request.retention_time_ms = retention
        return self._replies(self.driver.ask(8, offsets.commit, request, version))

    def _fetch(self, fields: Fields) -> list[str]:
        group, is_stable = fields.pop("group"), fields.pop("require_stable", "") == "true"
        if "topic" in fields:
            partitions = [int(index) for index in fields.pop("partition").split(",")]
            wanted = [(fields.pop("topic"), bytes(16), partitions)]
        else:
            wanted = offsets.all_topics(self.shard, group, FETCH_VERSION)
        found = offsets.fetch(self.shard, group, wanted, FETCH_VERSION, require_stable=is_stable)
        lines = []
        for topic, _, partitions, rows in found:
            assert rows is None, "only a fetch of many offsets has them in columns"
            for index, entry, error in partitions:
                name = error_code_of(error).name
                text = (
                    "-1"
                    if entry is None
                    else f"{entry.offset}{entry.metadata and f' metadata={entry.metadata}'}"
                )
                lines.append(f"reply {topic}-{index} {name} offset={text}")
        return lines or ["reply nothing"]

    def _delete(self, fields: Fields) -> list[str]:
        cls = messages.OffsetDeleteRequest
        partitions = [cls.Partition(int(index)) for index in fields.pop("partition").split(",")]
        request = cls(fields.pop("group"), [cls.Topic(fields.pop("topic"), partitions)])
        return self._replies(self.driver.ask(47, deletion.delete, request, 0))

    def _txn_commit(self, fields: Fields) -> list[str]:
        cls, producer = messages.TxnOffsetCommitRequest, int(fields.pop("producer"))
        request = self._request(cls, fields, "id", fields.pop("group"), producer, 0)
        known = transactional_offsets.known_partitions(self.shard.topics, request)
        context = RequestContext(None, 28, 5, 0, "c", "/host")
        result = transactional_offsets.commit(self.shard, request, known, context, self.driver.clock.now())
        lines = [f"reply {line}" for reply in result.replies for line in self._answered(reply.response)]
        for record in result.records:
            self.shard.replay(record.key, record.value, self._next_offset(), producer)
            lines.append(f"append {self._record(record)} in the transaction of {producer}")
        return lines

    def _end(self, fields: Fields) -> list[str]:
        is_commit = fields.pop("outcome") == "commit"
        self._next_offset()
        self.shard.end_transaction(int(fields.pop("producer")), committed=is_commit)
        return [f"append marker {'COMMIT' if is_commit else 'ABORT'}"]

    def _next_offset(self) -> int:
        """Return the offset of a batch of a transaction, which is not among `durable`; later records follow it."""
        self.driver.durable.append(CoordinatorRecord(b"", None))
        return len(self.driver.durable) - 1

    def _expire(self, fields: Fields) -> list[str]:
        retention = int(fields.pop("retention"))
        now = self.driver.clock.now()
        expired = 0
        for step in expiry.expire(self.shard, now, retention, lambda: expiry.NOTHING):
            expired += step.offsets
            self.driver.take(step.result)
        return [f"expired {expired}"]

    def _advance(self, fields: Fields) -> list[str]:
        self.driver.advance(int(fields.pop("ms")))
        return []

    def _join(self, fields: Fields) -> list[str]:
        group, name = fields.pop("group"), fields.pop("member")
        protocols = {"range": subscription(*filter(None, fields.pop("topics", "").split(",")))}
        (member,) = self.driver.stable(
            instances=(fields.pop("instance", None),),
            group=group,
            protocols=protocols,
            protocol_type=fields.pop("type", "consumer"),
            session_ms=int(fields.pop("session", 10_000)),
        )
        generation = self.driver.group(group).generation
        self.members[name] = member, generation
        return [f"{name} is in generation {generation}"]

    def _enter(self, fields: Fields) -> list[str]:
        """JoinGroup without the SyncGroup that follows."""
        asked = self.driver.enter(group=fields.pop("group"))
        self.members[fields.pop("member")] = asked.answer.member_id, asked.answer.generation_id
        return [f"reply {error_code_of(asked.error).name} generation={asked.answer.generation_id}"]

    def _heartbeat(self, fields: Fields) -> list[str]:
        """ConsumerGroupHeartbeat, whose member id is the name of the member."""
        member, group = fields.pop("member"), fields.pop("group")
        if "topics" in fields:
            answer = self.driver.enter_consumer(member, *fields.pop("topics").split(","), group_id=group)
        else:
            answer = self.driver.heartbeat(member, int(fields.pop("epoch")), group_id=group)
        self.members[member] = member, answer.member_epoch
        return [f"reply {error_code_of(answer.error_code).name} epoch={answer.member_epoch}"]

    def _load(self, fields: Fields) -> list[str]:
        """Begin to load a shard, whose log is empty."""
        self.shard = self.driver.shard = self.driver.new_shard()
        self.shard.latest_record = self._latest_record
        return []

    def _loaded(self, fields: Fields) -> list[str]:
        for result in self.shard.finish_loading(self.driver.clock.now()):
            self.driver.take(result)
        return []

    def _leave(self, fields: Fields) -> list[str]:
        member, _ = self.members[fields.pop("member")]
        answer = self.driver.leave((member, None), group=fields.pop("group"))
        return [f"reply {error_code_of(answer.members[0].error_code).name}"]

    def _delete_group(self, fields: Fields) -> list[str]:
        asked = self.driver.delete(fields.pop("group"))
        return [f"reply {error_code_of(asked.answer.error_code).name}"]

    def _hold(self, fields: Fields) -> list[str]:
        self.driver.hold = True
        return []

    def _sync(self, fields: Fields) -> list[str]:
        self.driver.sync_log()
        return self._released()

    def _fail(self, fields: Fields) -> list[str]:
        self.driver.fail_log()
        return self._released()

    def _released(self) -> list[str]:
        self.driver.hold = False
        asked, self.waiting = self.waiting, []
        return [line for each in asked for line in self._replies(each)]
