"""Clients: they write down what they send, and conclude from each answer what the cluster must keep."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.errors import ErrorCode
from kafka_offsets.metadata.image import TopicPartition
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers, encode_batch, read_records
from kafka_offsets.replication.leader import ACKS_ALL
from tests.drivers.members import join_request
from tests.replication.simulation.history import require
from tests.simulation.cluster.network import Connection

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

ORDERS, OFFSETS = TopicPartition("orders", 0), TopicPartition(OFFSETS_TOPIC, 0)
FIRST_ID = 100
TIMEOUT_MS = 6000
SESSION_MS, REBALANCE_MS = 4000, 3000
MEMBERS = "members"


class Client:
    """A process with connections to nodes. A request without an answer ends with its connection."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self._connections: dict[int, Connection] = {}
        self.is_busy = False

    def call(
        self, node: int, request: messages.MessageValue, version: int, done: Callable[[Any], None]
    ) -> None:
        """Send a request; `done` gets the answer, or None."""
        connection = self._connections.get(node)
        if connection is None:
            connection = self._connections[node] = Connection(self.world, FIRST_ID + self.number, node)
            connection.channel.client_id = f"client-{self.number}"
        ended: list[Any] = []

        def end(answer: Any) -> None:
            if not ended:
                ended.append(answer)
                done(answer)

        def expire() -> None:
            if not ended:
                connection.hang_up()
                connection.channel.close()
                end(None)

        connection.channel.send(request, version, end)
        network = self.world.network
        network.at(network.now_ms + TIMEOUT_MS, expire)

    def alone(
        self,
        node: int,
        request: messages.MessageValue,
        version: int,
        done: Callable[[Any], None],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Send a request; until it has ended this client sends nothing else that must come after it."""
        self.is_busy = True

        def end(answer: Any) -> None:
            self.is_busy = False
            if answer is not None:
                done(answer)
            else:
                lost()

        self.call(node, request, version, end)

    # -- records

    def produce(self, node: int, acks: int, values: list[bytes]) -> None:
        """Send a batch; what is acknowledged by all must be kept."""
        made = messages.ProduceRequest
        batch = bytes(encode_batch([(None, value, (), 0) for value in values]))
        topic = made.TopicProduceData(ORDERS.topic, partition_data=[made.PartitionProduceData(0, batch)])
        request = made(acks=acks, timeout_ms=3000, topic_data=[topic])
        history = self.world.histories[ORDERS]
        floor = history.floor
        self.world.sent.update(values)

        def done(answer: messages.ProduceResponse | None) -> None:
            if answer is None or acks != ACKS_ALL or history.floor != floor:
                return
            found = answer.responses[0].partition_responses[0]
            if found.error_code:
                return
            for offset, value in enumerate(values, found.base_offset):
                self.world.acknowledged(offset, value)

        self.call(node, request, 10, done)

    def read(self, node: int) -> None:
        """Fetch from the beginning: what a consumer sees is what was visible there."""
        made = messages.FetchRequest
        wanted = made.FetchTopic(
            ORDERS.topic, partitions=[made.FetchPartition(0, partition_max_bytes=1 << 20)]
        )
        request = made(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=[wanted])
        history = self.world.histories[ORDERS]

        def done(answer: messages.FetchResponse | None) -> None:
            if answer is None or history.floor >= 0:
                return
            found = answer.responses[0].partitions[0]
            data = bytes(found.records or b"")
            for position, header in batch_headers(data):
                for offset, record in enumerate(read_records(data, position, header), header.base_offset):
                    require(offset < found.high_watermark, f"{offset} is read above {found.high_watermark}")
                    seen = history.records[offset] if offset < len(history.records) else None
                    mine = (header.leader_epoch, record.key, record.value)
                    require(seen == mine, f"{mine} is read at {offset}, {seen} was visible")

        self.call(node, request, 12, done)

    # -- offsets

    def commit(self, node: int, group: str, member: "tuple[str, int]" = ("", -1)) -> None:
        """Commit the next offset; an acknowledged one is there until a later one is."""
        world = self.world
        world.offsets += 1
        offset, history = world.offsets, world.histories[OFFSETS]
        floor, key = history.floor, (group, self.number)
        world.committed.setdefault(key, set()).add(offset)
        made = messages.OffsetCommitRequest
        topic = made.Topic(ORDERS.topic, partitions=[made.Partition(self.number, offset)])
        member_id, generation = member

        def done(answer: messages.OffsetCommitResponse) -> None:
            error = answer.topics[0].partitions[0].error_code
            if error:
                lost()
            elif history.floor == floor:
                world.kept[key] = offset, floor
            self.refused(error)

        def lost() -> None:
            """A node may still be passing it on, also after a later commit over another connection."""
            if world.plan.forwards:
                world.given_up.add(offset)

        self.alone(node, made(group, generation, member_id, topics=[topic]), 7, done, lost)

    def refused(self, error: int) -> None:
        """Draw a conclusion from an error."""

    def look(self, node: int, group: str) -> None:
        """Fetch a committed offset: one that somebody has committed."""
        made = messages.OffsetFetchRequest
        request = made(group, [made.Topic(ORDERS.topic, [self.number])])
        committed = self.world.committed.setdefault((group, self.number), set())

        def done(answer: messages.OffsetFetchResponse | None) -> None:
            if answer is None or answer.error_code:
                return
            offset = answer.topics[0].partitions[0].committed_offset
            known = offset == -1 or offset in committed
            require(known, f"{group}: {offset} is fetched and was never committed")

        self.call(node, request, 5, done)


class Member(Client):
    """A member of a classic group: it joins, synchronizes, and commits in its generation."""

    def __init__(self, world: "World", number: int) -> None:
        super().__init__(world, number)
        self._forget()

    def _forget(self) -> None:
        self.member_id, self.generation = "", -1
        self.is_stable = False
        self._roster: list[str] | None = None

    def next_call(self, node: int, number: int) -> None:
        """Do what is next."""
        if self.is_busy:
            return
        if self.is_stable:
            if number % 3:
                self.commit(node, MEMBERS, (self.member_id, self.generation))
            else:
                beat = messages.HeartbeatRequest(MEMBERS, self.generation, self.member_id)
                self.alone(node, beat, 3, lambda answer: self.refused(answer.error_code))
        elif self.generation < 0:
            request = join_request(MEMBERS, self.member_id, session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS)
            self.alone(node, request, 5, self._joined)
        else:
            self._synchronize(node)

    def refused(self, error: int) -> None:
        """Join again, as the error says."""
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
        elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            self.generation, self.is_stable = -1, False

    def _joined(self, answer: messages.JoinGroupResponse) -> None:
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        if not answer.error_code:
            self.generation = answer.generation_id
            is_leader = answer.leader == self.member_id
            self._roster = [each.member_id for each in answer.members] if is_leader else None
        self.refused(answer.error_code)

    def _synchronize(self, node: int) -> None:
        """Every member of a generation gets the assignment of one leader, at any coordinator."""
        world, made = self.world, messages.SyncGroupRequest
        world.offsets += 1
        mark = world.offsets
        assigned = [made.Assignment(each, f"{mark} {each}".encode()) for each in self._roster or ()]
        generation, floor = self.generation, world.histories[OFFSETS].floor

        def done(answer: messages.SyncGroupResponse) -> None:
            self.refused(answer.error_code)
            if answer.error_code or world.histories[OFFSETS].floor != floor:
                return
            self.is_stable = self.generation == generation
            given, member_id = bytes(answer.assignment).decode().split(" ", 1)
            require(member_id == self.member_id, f"{self.member_id} gets what {member_id} has")
            first = world.assignments.setdefault((floor, generation), given)
            require(first == given, f"two assignments of generation {generation}: {first} and {given}")

        self.alone(node, made(MEMBERS, generation, self.member_id, assignments=assigned), 3, done)
