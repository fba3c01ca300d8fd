"""The offset manager that keeps offsets in ZooKeeper, where Kafka kept them before it had an offsets topic.

Any program may change the znodes. So every fetch reads them first, and so does every decision that depends on them.
What a znode cannot hold is not kept: the metadata of a commit, its leader epoch and its own retention. The time of a
commit is that of the znode's last change.
Source: KafkaApis.handleOffsetCommitRequest and handleOffsetFetchRequest of Kafka 0.8.2 to 3.9, version 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.groups.shard_loader import ShardLoader
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.offset_manager.interface import Reader
from kafka_offsets.broker.offset_manager.published_groups import PublishedGroups
from kafka_offsets.broker.offset_manager.session import ZooKeeperSession
from kafka_offsets.broker.offset_manager.zookeeper_shard import Ask, ZooKeeperShard
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.broker.wire.api import LATER, GroupRequest, Later, Response, ShardHandle
from kafka_offsets.broker.wire.responses import Responses
from kafka_offsets.clock import Now
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.state.result import Reply, RequestContext, Result
from kafka_offsets.coordinator.state.shard_state import TopicView
from kafka_offsets.errors import ErrorCode
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.zookeeper import operations, znodes
from kafka_offsets.zookeeper.operations import (
    GroupTree,
    Operation,
    RequestRefusedError,
    StoredOffset,
    UnavailableError,
)
from kafka_offsets.zookeeper.requests import ZooKeeper
from kafka_offsets.zookeeper.znodes import OffsetName

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard, ResponseSender
    from kafka_offsets.coordinator.shard import Shard
    from kafka_offsets.protocol.compression import Compression
    from kafka_offsets.storage.log.log import Log

_OFFSET_COMMIT, _OFFSET_DELETE = 8, 47

_GROUPS_SINCE = 8
"""The first version of OffsetFetch whose requests name several groups (KIP-709)."""

_TOPIC_IDS_SINCE = 10

logger = new_logger(__name__)

_Wanted = dict[str, list[OffsetName] | None]
"""The offsets that a fetch reads: by group the partitions, or None for all of the group."""


class ZooKeeperOffsetManager:
    """Offsets of one broker in ZooKeeper."""

    def __init__(
        self,
        config: Config,
        client: ZooKeeper,
        scheduler: Scheduler,
        responses: Responses,
        topics: TopicView,
        runtime: CoordinatorRuntime,
        shards: Shards,
        loader: ShardLoader,
    ) -> None:
        self._scheduler = scheduler
        self._responses = responses
        self._topics = topics
        self._runtime = runtime
        self._shards = shards
        self._loader = loader
        self._publishes = config.zookeeper_group_metadata_enable
        self._cleanups: list[Callable[[], None]] = []
        self._is_cleaning = False
        session_ms = config.zookeeper_session_timeout_ms
        connection_ms = config.zookeeper_connection_timeout_ms
        self._session = ZooKeeperSession(
            client,
            config.zookeeper_connect or "",
            session_ms if connection_ms is None else connection_ms,
            scheduler,
            self._on_connected,
        )

    def new_shard(
        self, shard: Shard, log: Log, sender: ResponseSender, compression: Compression, max_batch_bytes: int
    ) -> HostedShard:
        """Return a new shard of the offsets topic."""
        submit = self._session.submit
        published = PublishedGroups(submit) if self._publishes else None
        touch, now = self._shards.touch, self._scheduler.clock.now
        return ZooKeeperShard(
            shard,
            log,
            sender,
            compression,
            max_batch_bytes,
            submit=submit,
            touch=touch,
            now=now,
            published=published,
        )

    def startup(self) -> None:
        """Connect to ZooKeeper; nothing waits for the connection."""
        self._session.start()

    def shutdown(self) -> None:
        """End the session."""
        self._session.stop()

    def _on_connected(self) -> None:
        self.cleanup(lambda: None)
        for hosted in self._runtime.all_shards():
            if isinstance(hosted, ZooKeeperShard) and hosted.published is not None:
                hosted.published.write()

    # -- fetches

    def get_offset(
        self, read: Reader, request: messages.OffsetFetchRequest, context: RequestContext, now: Now
    ) -> Response | Later:
        """Read the offsets from ZooKeeper into the tables, then answer."""
        names_by_group = self._wanted(request, context.api_version)
        remaining, failed = len(names_by_group) + 1, ErrorCode.NONE

        def ready(error: ErrorCode) -> None:
            """Count a group whose offsets are read; answer when it is the last one."""
            nonlocal remaining, failed
            remaining -= 1
            failed = failed or error
            if remaining:
                return
            if failed:
                self._responses.fail(context, failed)
                return
            response = read(request, context, self._scheduler.clock.now())
            if response is not LATER:
                self._responses.respond(context, response)

        for group, names in names_by_group.items():
            hosted = self._shards.shard_of(group, now)
            if isinstance(hosted, ZooKeeperShard):
                self._refresh(hosted, group, names, ready)
            else:
                ready(ErrorCode.NONE)  # not loaded: `read` answers with the error
        ready(ErrorCode.NONE)
        return LATER

    def _wanted(self, request: messages.OffsetFetchRequest, api_version: int) -> _Wanted:
        names_by_group: _Wanted = {}
        if api_version < _GROUPS_SINCE:
            topics = request.topics
            names_by_group[request.group_id] = (
                None
                if topics is None
                else [
                    OffsetName(request.group_id, t.name, index)
                    for t in topics
                    for index in t.partition_indexes
                ]
            )
            return names_by_group
        for group in request.groups:
            names: list[OffsetName] | None = None
            if group.topics is not None:
                names = []
                for topic in group.topics:
                    name = self._topic_name(topic.name, topic.topic_id, api_version)
                    names += [OffsetName(group.group_id, name, index) for index in topic.partition_indexes]
            names_by_group[group.group_id] = names
        return names_by_group

    def _topic_name(self, name: str, topic_id: bytes, api_version: int) -> str:
        if api_version < _TOPIC_IDS_SINCE:
            return name
        return self._topics.topic_name(topic_id) or ""

    def _refresh(
        self,
        hosted: ZooKeeperShard,
        group: str,
        names: Sequence[OffsetName] | None,
        ready: Callable[[ErrorCode], None],
    ) -> None:
        """Read offsets into the table. All of a group: after the writes that were decided before."""
        if names is None:

            def refreshed(tree: GroupTree | None) -> Result:
                assert tree is not None
                ready(_readable(tree.offsets))
                return Result()

            hosted.ask(Ask(group, None, refreshed, lambda error: ready(_fetch_error(error))))
            return
        valid_names = [
            name for name in dict.fromkeys(names) if znodes.is_name(name.topic) and name.partition >= 0
        ]

        def ended(result: Any) -> None:
            """Put the offsets of a group into the table, or report why they were not read."""
            if isinstance(result, RequestRefusedError):
                logger.error("group %s: %s", group, result)
                ready(ErrorCode.UNKNOWN_SERVER_ERROR)
            elif isinstance(result, UnavailableError):
                ready(_fetch_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            elif isinstance(result, Exception):
                logger.error("group %s: offsets were not read", group, exc_info=result)
                ready(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                hosted.refresh_names(valid_names, result)
                ready(_readable(result))

        operations.run(operations.read_offsets(valid_names), self._session.submit, ended)

    # -- commits and deletions

    def put_offset(
        self,
        hosted: HostedShard,
        decide: ShardHandle,
        request: GroupRequest,
        context: RequestContext,
        now: Now,
    ) -> None:
        """Decide a request, and write its offsets to ZooKeeper before it is answered."""
        assert isinstance(hosted, ZooKeeperShard)
        names: list[OffsetName] | None = None
        is_known = hosted.published is None or request.group_id in hosted.published.read
        if isinstance(request, messages.OffsetCommitRequest):
            if is_known and not _is_conditional(request):
                self._shards.decide(hosted, decide(hosted.shard, request, context, now))
                return
            names = [
                OffsetName(request.group_id, name, partition.partition_index)
                for topic in request.topics
                if znodes.is_name(name := self._topic_name(topic.name, topic.topic_id, context.api_version))
                for partition in topic.partitions
                if partition.partition_index >= 0
            ]
        elif is_known and context.api_key != _OFFSET_DELETE:
            self._shards.decide(hosted, decide(hosted.shard, request, context, now))
            return
        tags = []
        if isinstance(request, messages.OffsetCommitRequest):
            tags = [(p, p.unknown_tags) for topic in request.topics for p in topic.partitions]

        def decide_again(tree: GroupTree | None) -> Result:
            for (
                partition,
                unknown_tags,
            ) in tags:  # a decision removes the tags; a repeated one needs them again
                partition.unknown_tags = unknown_tags
            return decide(hosted.shard, request, context, self._scheduler.clock.now())

        refuse, removes = partial(self._responses.fail, context), context.api_key == _OFFSET_DELETE
        hosted.ask(Ask(request.group_id, names if is_known else None, decide_again, refuse, removes))

    def delete_group(self, hosted: HostedShard, group_id: str, context: RequestContext, now: Now) -> int:
        """Delete a group with its offsets and its znodes, unless consumers of ZooKeeper times are alive in it."""
        assert isinstance(hosted, ZooKeeperShard)

        def decide(tree: GroupTree | None) -> Result:
            if tree is not None and tree.is_alive:
                response = messages.DeleteGroupsResponse.DeletableGroupResult
                return Result(replies=(Reply(context, response(group_id, ErrorCode.NON_EMPTY_GROUP)),))
            return group_requests.delete_group(hosted.shard, group_id, context, self._scheduler.clock.now())

        refuse = partial(self._responses.fail, context)
        hosted.ask(Ask(group_id, None, decide, refuse, removes=True))
        return 0

    # -- all groups

    def get_groups(self, context: RequestContext, read: Callable[[], Response | Later]) -> Response | Later:
        """Read groups that are new in ZooKeeper, then answer; without ZooKeeper with those known before."""

        def answer() -> None:
            response = read()
            if response is not LATER:
                self._responses.respond(context, response)

        self._list_groups(lambda listed: self._visit(self._unknown(listed), answer))
        return LATER

    def _unknown(self, listed: tuple[str, ...]) -> list[str]:
        """Return the groups that no shard knows."""
        known_groups = {group for hosted in self._runtime.all_shards() for group in hosted.shard.groups}
        return [group for group in listed if group not in known_groups]

    def trigger_load_offsets(self) -> None:
        """Load groups from their logs; their offsets follow when there is a connection to ZooKeeper."""
        self._loader.on_loaded.append(lambda: self.cleanup(lambda: None))
        self._loader.load_long()

    def cleanup(self, done: Callable[[], None]) -> None:
        """Read the offsets of all groups into the tables, and remove znodes of groups that have no offsets."""
        self._cleanups.append(done)
        if self._is_cleaning:
            return
        self._is_cleaning = True

        def visit(listed: tuple[str, ...]) -> None:
            known_groups = [g for hosted in self._runtime.all_shards() for g in hosted.shard.offsets.groups()]
            self._visit([*listed, *known_groups], self._cleaned)

        self._list_groups(visit)

    def _list_groups(self, done: Callable[[tuple[str, ...]], None]) -> None:
        """Call `done` with the groups in ZooKeeper; with none if they cannot be listed."""

        def ended(listed: tuple[str, ...] | Exception) -> None:
            """Pass on the names of the groups; none after an error."""
            if not isinstance(listed, Exception):
                done(listed)
                return
            if not isinstance(listed, UnavailableError):
                logger.error("the groups in ZooKeeper were not listed", exc_info=listed)
            done(())

        operations.run(operations.list_groups(), self._session.submit, ended)

    def _visit(self, groups: list[str], done: Callable[[], None]) -> None:
        """Read the offsets of groups into the tables, and remove their znodes if they have none; then call `done`."""
        now = self._scheduler.clock.now()
        named = [group for group in dict.fromkeys(groups) if znodes.is_name(group)]
        remaining = len(named) + 1

        def ready(error: ErrorCode = ErrorCode.NONE) -> None:
            nonlocal remaining
            remaining -= 1
            if not remaining:
                done()

        for group in named:
            hosted = self._shards.shard_of(group, now)  # creates the offsets topic if there is none
            if isinstance(hosted, ZooKeeperShard):
                self._clean_group(hosted, group, ready)
            else:
                ready()
        ready()

    def _clean_group(self, hosted: ZooKeeperShard, group: str, ready: Callable[[ErrorCode], None]) -> None:
        def refreshed(tree: GroupTree | None) -> Result:
            """Begin to remove the group from ZooKeeper if it, or one of its topics, has no offsets."""
            assert tree is not None
            if tree.exists and (not tree.offsets or tree.empty_topics):
                operations.run(self._remove(group), self._session.submit, partial(_report, group))
            ready(ErrorCode.NONE)
            return Result()

        hosted.ask(Ask(group, None, refreshed, ready))

    def _remove(self, group: str) -> Operation[None]:
        if (yield from operations.remove_empty(group)):
            logger.info("group %s has no offsets in ZooKeeper: its znodes are removed", group)

    def _cleaned(self) -> None:
        self._is_cleaning = False
        cleanups, self._cleanups = self._cleanups, []
        for done in cleanups:
            done()


def _report(group: str, outcome: object) -> None:
    """Log why znodes without offsets were not removed; without ZooKeeper the next cleanup removes them."""
    if isinstance(outcome, Exception) and not isinstance(outcome, UnavailableError):
        logger.warning("group %s: its znodes without offsets were not removed: %s", group, outcome)


def _is_conditional(request: messages.OffsetCommitRequest) -> bool:
    return any(
        partition.unknown_tags is not None and conditions.EXPECTED_OFFSET in partition.unknown_tags
        for topic in request.topics
        for partition in topic.partitions
    )


def _fetch_error(error: ErrorCode) -> ErrorCode:
    """Return the error of a fetch: older clients know no COORDINATOR_NOT_AVAILABLE there, and do not retry it."""
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error


def _readable(stored_offsets: Mapping[OffsetName, StoredOffset]) -> ErrorCode:
    """Return the error of a fetch of these offsets."""
    is_readable = all(stored_offset.problem is None for stored_offset in stored_offsets.values())
    return ErrorCode.NONE if is_readable else ErrorCode.UNKNOWN_SERVER_ERROR
