"""Shard requests: the requests for one group are decided on the shard that the group hashes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.broker.wire.api import LATER, GroupRequest, Handle, Later, ShardHandle
from kafka_offsets.errors import ErrorCode

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.clock import Now
    from kafka_offsets.coordinator.state.result import RequestContext


def in_shard(decide: ShardHandle) -> Handle:
    """Return the handler of an API whose requests are decided on the shard of their `group_id`."""

    def handle(broker: Context, request: GroupRequest, context: RequestContext, now: Now) -> Later:
        groups = broker.groups
        hosted = groups.runtime.by_group.get(request.group_id)
        if hosted is not None and not hosted.failed:
            hosted.decide(decide(hosted.shard, request, context, now))
            groups.shards.dirty[hosted] = None
            return LATER
        shard_or_error = groups.shards.shard_of(request.group_id, now)
        if not isinstance(shard_or_error, ErrorCode):
            groups.offset_manager.put_offset(shard_or_error, decide, request, context, now)
        elif shard_or_error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not groups.loader.commit(
            decide, request, context, now
        ):
            broker.responses.fail(context, shard_or_error)
        return LATER

    return handle
