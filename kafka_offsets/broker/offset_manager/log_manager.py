"""The default offset manager: offsets are records of the offsets topic, and the table of a shard is their replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.broker.groups.shard_loader import ShardLoader
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.offset_manager.interface import Reader
from kafka_offsets.broker.wire.api import GroupRequest, Later, Response, ShardHandle
from kafka_offsets.clock import Now
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.state.result import RequestContext

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard
    from kafka_offsets.protocol import messages


class LogOffsetManager:
    """A view of what the broker has anyway: its shards and their logs."""

    def __init__(self, shards: Shards, loader: ShardLoader) -> None:
        self._shards = shards
        self._loader = loader

    def startup(self) -> None:
        """Do nothing: the data directory is open."""

    def get_offset(
        self,
        read: Reader,
        request: messages.OffsetFetchRequest,
        context: RequestContext,
        now: Now,
    ) -> Response | Later:
        """Read from the offset table."""
        return read(request, context, now)

    def put_offset(
        self,
        hosted: HostedShard,
        decide: ShardHandle,
        request: GroupRequest,
        context: RequestContext,
        now: Now,
    ) -> None:
        """Decide; the runtime appends the records and puts them into the table when they are durable."""
        hosted.decide(decide(hosted.shard, request, context, now))
        self._shards.touch(hosted)

    def delete_group(self, hosted: HostedShard, group_id: str, context: RequestContext, now: Now) -> int:
        """Write the tombstones of a group and of its offsets."""
        result = group_requests.delete_group(hosted.shard, group_id, context, now)
        self._shards.decide(hosted, result)
        return len(result.records)

    def get_groups(self, context: RequestContext, read: Callable[[], Response | Later]) -> Response | Later:
        """Read from the shards."""
        return read()

    def trigger_load_offsets(self) -> None:
        """Load the long logs in another thread."""
        self._loader.load_long()

    def cleanup(self, done: Callable[[], None]) -> None:
        """Do nothing more: the log cleaner removes what tombstones delete."""
        done()

    def shutdown(self) -> None:
        """Do nothing: the data directory is closed with the broker."""
