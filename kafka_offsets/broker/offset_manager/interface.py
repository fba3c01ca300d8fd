"""The interface of an offset manager. Each broker has one; `offset.storage` chooses it.

The document that it comes from names the methods (Inbuilt offset management, 1c). Here they take requests and answer
with callbacks, because a store may need time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kafka_offsets.broker.wire.api import GroupRequest, Later, Response, ShardHandle
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard
    from kafka_offsets.protocol import messages

Reader = Callable[["messages.OffsetFetchRequest", RequestContext, Now], Response | Later]
"""(request, its context, time) -> the response, or LATER."""


class OffsetManager(Protocol):
    """Stores, fetches and maintains committed offsets."""

    def startup(self) -> None:
        """Begin to use the store."""
        ...

    def get_offset(
        self,
        read: Reader,
        request: messages.OffsetFetchRequest,
        context: RequestContext,
        now: Now,
    ) -> Response | Later:
        """Answer a fetch. `read` answers from the offset tables, which hold what is committed when it is called.

        Returns the response, or LATER.
        """
        ...

    def put_offset(
        self,
        hosted: HostedShard,
        decide: ShardHandle,
        request: GroupRequest,
        context: RequestContext,
        now: Now,
    ) -> None:
        """Decide a request for one group, and store the offsets that it commits or deletes before it is answered."""
        ...

    def delete_group(self, hosted: HostedShard, group_id: str, context: RequestContext, now: Now) -> int:
        """Delete a group with its offsets; return the number of records that are decided already."""
        ...

    def get_groups(self, context: RequestContext, read: Callable[[], Response | Later]) -> Response | Later:
        """Answer a request about all groups. `read` answers from the shards, which know all groups by then."""
        ...

    def trigger_load_offsets(self) -> None:
        """Load in the background what is not loaded yet."""
        ...

    def cleanup(self, done: Callable[[], None]) -> None:
        """Bring the tables in line with the store, and remove from it what leads to no offset; then call `done`."""
        ...

    def shutdown(self) -> None:
        """Stop using the store."""
        ...
