"""1,000 members in one group, classic and of KIP-848, and 10,000 groups: how long until each has its share, and then?

    python benchmarks/groups.py [--members 1000] [--groups 10000] [--bootstrap-server HOST:PORT | --set KEY=VALUE]

Starts `kafka-offsets serve`, or asks a broker that runs. Each member is a connection, all of one process and one
thread, so the clients take more of the time than the broker does. All members begin at once. A rebalance is done when
every member has its share of the topic's partitions, one for each, in one generation or epoch; a member that learns of
a rebalance joins again at once. What a heartbeat costs is CPU time of the broker, over ten of each member. Then one
request asks for all of the group. Commits make groups, one after the other on one connection.

CPython 3.11.7, two cores of an x86-64 machine without other work:

    classic, 1000 members: formed            275.6 ms     0.18 s of the broker's CPU
    classic: a heartbeat                     25.1 us of the broker's CPU
    classic: described                         7.9 ms
    consumer, 1000 members: formed          1628.7 ms     1.45 s of the broker's CPU
    consumer: a heartbeat                     44.1 us of the broker's CPU
    consumer: described                       29.7 ms
    10000 groups made by a commit each      1477.3 ms     0.95 s of the broker's CPU
    a group with its offset                   1091 bytes
    all groups listed                         27.0 ms
    all of them described by one request      46.1 ms
    all of them deleted by one request       246.5 ms

With other work on it (load 11) the groups formed in 1588 and 6918 ms, and with Kafka's
group.consumer.assignment.interval.ms of 1000 the second in 2792 ms, with 0.60 s of CPU.
Apache Kafka 4.3.1 under that load: 1707 ms and 2662 ms for the two groups, described in 65 ms and 204 ms; 10.7 s to
make 10,000 groups, 259 ms to list, 625 ms to describe and 1092 ms to delete them.
"""

import argparse
import asyncio
import collections
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.protocol import decode_response, encode_request
from kafka_offsets.protocol import messages

TOPIC = "shared"
SESSION_MS = 60_000
BEATS = 10
REBALANCING = 27
_JOIN, _SYNC, _BEAT, _CONSUMER_BEAT = 5, 3, 3, 1


class Peer:
    """A connection of this process's loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    async def call(self, request: messages.MessageValue, version: int) -> Any:
        """Ask and return the answer."""
        self._number += 1
        self._writer.write(encode_request(request, version, self._number, "bench"))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        return decode_response(type(request), version, frame, self._number)


async def connect(address: tuple[str, int], count: int) -> list[Peer]:
    """Open so many connections."""
    return [Peer(*await asyncio.open_connection(*address)) for _ in range(count)]


class Broker:
    """What the broker's process used."""

    def __init__(self, process: subprocess.Popen[str] | None) -> None:
        self.process = process

    def cpu_s(self) -> float:
        """CPU time so far; 0 of a broker that somebody else has started."""
        if self.process is None:
            return 0.0
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e9

    def memory(self) -> int:
        """Resident bytes."""
        if self.process is None:
            return 0
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096


class Classic:
    """A group of members of the classic protocol."""

    def __init__(self, peers: list[Peer]) -> None:
        self.peers = peers
        self.name = "classic"
        self._generations: collections.Counter[int] = collections.Counter()
        self._done = asyncio.Event()
        self.members: dict[int, tuple[str, int]] = {}

    async def form(self) -> None:
        """Return when all members have an assignment of one generation."""
        await asyncio.gather(*(self._live(index) for index in range(len(self.peers))))

    async def _live(self, index: int) -> None:
        request = messages.JoinGroupRequest
        protocol = request.Protocol("range", b"\0\0\0\0\0\1\0\6shared\0\0\0\0")
        member_id, peer = "", self.peers[index]
        while not self._done.is_set():
            join = request(self.name, SESSION_MS, SESSION_MS, member_id, None, "consumer", [protocol])
            joined = await peer.call(join, _JOIN)
            member_id = joined.member_id
            if joined.error_code:
                continue
            self.members[index] = member_id, joined.generation_id
            if await self._sync(peer, member_id, joined) == REBALANCING:
                continue
            self._generations[joined.generation_id] += 1
            if self._generations[joined.generation_id] == len(self.peers):
                self._done.set()
            while not self._done.is_set():
                await asyncio.sleep(0.05)
                if await self.beat(index) == REBALANCING:
                    break

    async def _sync(self, peer: Peer, member_id: str, joined: Any) -> int:
        request = messages.SyncGroupRequest
        assignments = [
            request.Assignment(
                each.member_id, struct.pack(">hih6sii", 0, 1, 6, b"shared", 1, index) + b"\0\0\0\0"
            )
            for index, each in enumerate(joined.members)
        ]
        answer = await peer.call(
            request(self.name, joined.generation_id, member_id, assignments=assignments), _SYNC
        )
        return int(answer.error_code)

    async def beat(self, index: int) -> int:
        """Send a heartbeat of one member."""
        member_id, generation = self.members[index]
        answer = await self.peers[index].call(
            messages.HeartbeatRequest(self.name, generation, member_id), _BEAT
        )
        return int(answer.error_code)

    def description(self) -> tuple[messages.MessageValue, int]:
        """Return the request that describes the group."""
        return messages.DescribeGroupsRequest([self.name]), 5


class Consumers:
    """A group of members of the consumer protocol."""

    def __init__(self, peers: list[Peer]) -> None:
        self.peers = peers
        self.name = "consumer"
        self._owned: dict[int, list[Any]] = {index: [] for index in range(len(peers))}
        self._epochs = [0] * len(peers)
        self._content: set[int] = set()

    async def form(self) -> None:
        """Return when every member has one partition."""
        await asyncio.gather(*(self._live(index) for index in range(len(self.peers))))

    async def _live(self, index: int) -> None:
        first = {
            "subscribed_topic_names": [TOPIC],
            "rebalance_timeout_ms": SESSION_MS,
            "topic_partitions": [],
        }
        await self._beat(index, **first)
        while len(self._content) < len(self.peers):
            if not await self._beat(index, topic_partitions=self._owned[index]):
                await asyncio.sleep(0.1)

    async def _beat(self, index: int, **fields: Any) -> bool:
        request = messages.ConsumerGroupHeartbeatRequest
        answer = await self.peers[index].call(
            request(self.name, f"member-{index}", self._epochs[index], **fields), _CONSUMER_BEAT
        )
        assert answer.error_code == 0, answer
        self._epochs[index] = answer.member_epoch
        if answer.assignment is None:
            return False
        self._owned[index] = [
            request.TopicPartitions(each.topic_id, each.partitions)
            for each in answer.assignment.topic_partitions
        ]
        have = sum(len(each.partitions) for each in self._owned[index])
        (self._content.add if have == 1 else self._content.discard)(index)
        return True

    async def beat(self, index: int) -> int:
        """Send a heartbeat of one member."""
        await self._beat(index)
        return 0

    def description(self) -> tuple[messages.MessageValue, int]:
        """Return the request that describes the group."""
        return messages.ConsumerGroupDescribeRequest([self.name]), 0


async def measure_group(group: Classic | Consumers, broker: Broker) -> None:
    """Form a group, and ask for it."""
    count, began, cpu = len(group.peers), time.perf_counter(), broker.cpu_s()
    await group.form()
    told(f"{group.name}, {count} members: formed", began, broker.cpu_s() - cpu)
    began, cpu = time.perf_counter(), broker.cpu_s()
    for _ in range(BEATS):
        await asyncio.gather(*(group.beat(index) for index in range(count)))
    each_us = (broker.cpu_s() - cpu) / (BEATS * count) * 1e6
    print(f"{group.name}: a heartbeat{'':17}{each_us:8.1f} us of the broker's CPU")
    began = time.perf_counter()
    await group.peers[0].call(*group.description())
    told(f"{group.name}: described", began)


def told(what: str, began: float, cpu_s: float | None = None) -> None:
    """Print how long something took."""
    cpu = "" if cpu_s is None else f"   {cpu_s:6.2f} s of the broker's CPU"
    print(f"{what:38}{(time.perf_counter() - began) * 1000:8.1f} ms{cpu}")


def measure_groups(address: tuple[str, int], count: int, broker: Broker) -> None:
    """Make many groups, and ask for them."""
    request = messages.OffsetCommitRequest
    topic = request.Topic(TOPIC, partitions=[request.Partition(0, 1, committed_metadata="")])
    began, memory, cpu = time.perf_counter(), broker.memory(), broker.cpu_s()
    with Connection(*address) as connection:
        for index in range(count):
            connection.call(request(f"group-{index}", topics=[topic]), 8)
        told(f"{count} groups made by a commit each", began, broker.cpu_s() - cpu)
        print(f"a group with its offset {(broker.memory() - memory) / count:22.0f} bytes")
        began = time.perf_counter()
        assert len(connection.call(messages.ListGroupsRequest(), 4).groups) >= count
        told("all groups listed", began)
        began = time.perf_counter()
        names = [f"group-{index}" for index in range(count)]
        connection.call(messages.DescribeGroupsRequest(names), 5)
        told("all of them described by one request", began)
        began = time.perf_counter()
        connection.call(messages.DeleteGroupsRequest(names), 1)
        told("all of them deleted by one request", began)


def measure(address: tuple[str, int], broker: Broker, members: int, groups: int) -> None:
    """Measure all."""
    with Connection(*address) as connection:
        create = messages.CreateTopicsRequest
        connection.call(create([create.CreatableTopic(TOPIC, members, 1)], 30_000), 5)
        find = messages.FindCoordinatorRequest("classic", 0)
        while connection.call(find, 3).error_code:
            time.sleep(0.1)

    async def groups_of_many() -> None:
        for kind in (Classic, Consumers):
            await measure_group(kind(await connect(address, members)), broker)

    asyncio.run(groups_of_many())
    measure_groups(address, groups, broker)


def main() -> None:
    """Measure a broker of our own, or one that runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--bootstrap-server", type=parse_address)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.bootstrap_server is not None:
        measure(options.bootstrap_server, Broker(None), options.members, options.groups)
        return
    command = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0"]
    command += [word for setting in options.set for word in ("--set", setting)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = next(line for line in process.stderr if "listening on" in line).rsplit(" ", 1)[1]
    try:
        measure(parse_address(address.strip()), Broker(process), options.members, options.groups)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
