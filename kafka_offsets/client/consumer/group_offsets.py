"""Committed offsets of the consumer's group: OffsetCommit and OffsetFetch, without waiting for the responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka_offsets.client import commits
from kafka_offsets.client.consumer.actions import LOADING, MOVED, GroupMembership
from kafka_offsets.client.consumer.coordinator_link import CoordinatorLink
from kafka_offsets.client.consumer.settings import ConsumerSettings
from kafka_offsets.errors import CommitRefusedError, ErrorCode, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition, by_topic

_CLASSIC_VERSIONS, _MODERN_VERSIONS = (commits.VERSION, 8), (9, 9)
"""Of OffsetCommit and OffsetFetch: the first ones that take a member epoch, and the ones before."""

_NOT_YET = (
    LOADING,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors of a fetch that another one may not get."""

_COMMIT_NOT_YET = (
    LOADING,
    *MOVED,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)

Outcome = CommitRefusedError | bool
"""Of a commit: True for committed, False to try again."""


class GroupOffsets:
    """The committed offsets of the group.

    membership  None: partitions are subscribed, and offsets are committed from outside the group
    """

    def __init__(self, link: CoordinatorLink, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self.membership: GroupMembership | None = None
        self._link = link
        self._group = settings.group_id
        self._instance = settings.group_instance_id
        is_modern = settings.group_protocol == "consumer"
        self._commit_version, self._fetch_version = _MODERN_VERSIONS if is_modern else _CLASSIC_VERSIONS

    def commit(
        self, offsets: Mapping[TopicPartition, int], now_ms: int, on_done: Callable[[Outcome], None]
    ) -> bool:
        """Commit; return False if the coordinator is not known now.

        CommitRefusedError at once if the group has removed this member: offsets of a former member are no commits.
        """
        request = commits.request(self._group, offsets, {})
        member = self.membership
        if member is not None:
            if member.generation < 0:
                raise CommitRefusedError(self._group, dict.fromkeys(offsets, ErrorCode.UNKNOWN_MEMBER_ID), {})
            request.generation_id_or_member_epoch = member.generation
            request.member_id = member.member_id
            request.group_instance_id = self._instance
        return self._link.send(
            request,
            self._commit_version,
            now_ms,
            lambda response: on_done(self._committed(response, now_ms)),
        )

    def _committed(self, response: Any, now_ms: int) -> Outcome:
        if response is None:
            return False
        codes = {p.error_code for topic in response.topics for p in topic.partitions}
        if codes & {*MOVED}:
            self._link.forget(now_ms)
        if codes & {*_COMMIT_NOT_YET}:
            return False
        try:
            commits.check(self._group, response, {})
        except CommitRefusedError as error:
            return error
        return True

    def fetch(
        self,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        on_done: Callable[[Mapping[TopicPartition, int] | None], None],
    ) -> bool:
        """Read committed offsets, -1 for none; `on_done` gets None, or lacks partitions, if it must ask again."""
        made = messages.OffsetFetchRequest
        topics = [
            made.Topics(topic, partition_indexes=indexes) for topic, indexes in by_topic(partitions).items()
        ]
        group = made.Group(self._group, topics=topics)
        member = self.membership
        if member is not None and self._fetch_version > _CLASSIC_VERSIONS[1] and member.generation > 0:
            group.member_id, group.member_epoch = member.member_id, member.generation
        return self._link.send(
            made(groups=[group], require_stable=True),
            self._fetch_version,
            now_ms,
            lambda response: on_done(self._fetched(response, now_ms)),
        )

    def _fetched(
        self, response: messages.OffsetFetchResponse | None, now_ms: int
    ) -> Mapping[TopicPartition, int] | None:
        if response is None:
            return None
        (group,) = response.groups
        if group.error_code in MOVED:
            self._link.forget(now_ms)
            return None
        is_fenced = group.error_code == ErrorCode.UNKNOWN_MEMBER_ID  # the next heartbeat joins again
        if group.error_code in _NOT_YET or is_fenced:
            return None
        if group.error_code:
            raise RefusedError(f"offsets of group {self._group}", group.error_code)
        offsets = {}
        for topic in group.topics:
            for partition in topic.partitions:
                if partition.error_code in _NOT_YET:
                    continue
                if partition.error_code:
                    raise RefusedError(
                        f"offset of group {self._group} in {topic.name}-{partition.partition_index}",
                        partition.error_code,
                    )
                offsets[topic.name, partition.partition_index] = partition.committed_offset
        return offsets
