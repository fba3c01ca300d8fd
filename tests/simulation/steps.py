"""What a step does. Another kind of step is a method here and a line in the weights of simulation.py."""

import random

from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from tests.simulation.clients import Client
from tests.simulation.consumer_model import Modern
from tests.simulation.engine import Step
from tests.simulation.model import STABLE
from tests.simulation.observed import require
from tests.simulation.world import World

CHECK_EVERY = 20
QUIET_ROUNDS = 30
PRODUCERS = 4


class Calm(random.Random):
    """Numbers that never ask for anything unusual."""

    def random(self) -> float:
        return 0.5


class TimeDriver(World):
    """A world that takes steps."""

    def do(self, step: Step) -> None:
        kind, number, seed = step
        self.steps += 1
        r = random.Random(seed)
        if self.trace:
            now = self.clock.now()
            self.trace(f"{now.mono_ms:>9} {kind} {number} {seed}")
        client = self.clients[number % len(self.clients)]
        how, ends_turn = r.randrange(100), r.random() < 0.85
        getattr(self, f"_do_{kind}")(client, r, how)
        if ends_turn:
            self._turn()
        if self.steps % CHECK_EVERY == 0:
            self.check()

    def settle(self) -> None:
        """Let half a minute pass, and compare for the last time."""
        self.advance(30_000)
        self.check()

    def _do_next(self, client: Client, r: random.Random, how: int) -> None:
        if client.calls and how % 10:
            self.flush(client)
            return
        self.send(client, client.next_call(r), how)

    def _do_odd_join(self, client: Client, r: random.Random, how: int) -> None:
        wrong = r.choice([
            {"member_id": ""}, {"member_id": "nobody"}, {"member_id": self.any_member(r)},
            {"protocol_type": "other"}, {"protocols": []}, {"protocols": [("sticky", b"")]}, {"session_timeout_ms": 99},
            {"session_timeout_ms": 1_800_001}, {"group_id": ""}, {"protocol_type": ""},
            {"protocols": [("roundrobin", b"\0\1"), ("range", b"")]}, {"group_instance_id": "i0"}, {},
        ])  # fmt: skip
        self.send(client, client.join(r, **wrong), how)

    def _do_odd_sync(self, client: Client, r: random.Random, how: int) -> None:
        wrong = r.choice([
            {"generation_id": client.generation + r.choice([-1, 1])}, {"member_id": self.any_member(r)},
            {"group_id": ""},
            {"protocol_name": "other"}, {"protocol_type": "other"}, {"member_id": ""}, {},
        ])  # fmt: skip
        self.send(client, client.sync(r, **wrong), how)

    def _do_odd_heartbeat(self, client: Client, r: random.Random, how: int) -> None:
        wrong = r.choice([
            {"generation_id": client.generation + r.choice([-1, 1])}, {"member_id": self.any_member(r)},
            {"group_id": ""},
            {"group_id": r.choice(self.group_names)}, {},
        ])  # fmt: skip
        self.send(client, client.heartbeat(r, **wrong), how)

    def _do_odd_commit(self, client: Client, r: random.Random, how: int) -> None:
        wrong = r.choice([
            {"generation_id_or_member_epoch": client.generation + r.choice([-1, 1])}, {"member_id": self.any_member(r)},
            {"group_id": ""}, {"group_id": r.choice(self.group_names)}, {"member_id": "nobody"},
        ])  # fmt: skip
        self.send(client, client.commit(r, **wrong), how)

    def _do_leave(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.leave(r), how)

    def _do_commit(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.commit(r), how)

    def _do_transact(self, client: Client, r: random.Random, how: int) -> None:
        """One of few producers, so that each comes far, goes on."""
        client = self.clients[client.number % PRODUCERS]
        self.send(client, client.producer.next_call(r), how)

    def _do_fetch(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.fetch(r), how)

    def _do_delete_offsets(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.delete_offsets(r), how)

    def _do_delete_groups(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.delete_groups(r), how)

    def _do_describe(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.describe(r), how)

    def _do_list(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.list_groups(r), how)

    def _do_topic(self, client: Client, r: random.Random, how: int) -> None:
        self.send(client, client.change_topic(r), how)

    def _do_time(self, client: Client, r: random.Random, how: int) -> None:
        self.advance(r.choice([1, 5, 50, 500, 1000, 2000, 3000, 3000, 5000, 12_000]) + r.randrange(17))

    def _do_stall(self, client: Client, r: random.Random, how: int) -> None:
        self.stall(r.choice([100, 5000, 60_000, 700_000]) + r.randrange(17))

    def _do_wall(self, client: Client, r: random.Random, how: int) -> None:
        jump = r.choice([1, 1000, 3_600_000, 315_360_000_000]) * r.choice([-1, 1])
        self.clock.set_wall(self.wall + jump)
        self._set_time()

    def _do_cut(self, client: Client, r: random.Random, how: int) -> None:
        self.cut(client)

    def _do_deaf(self, client: Client, r: random.Random, how: int) -> None:
        client.is_deaf = not client.is_deaf
        if not client.is_deaf:
            self.read(client)

    def _do_restart(self, client: Client, r: random.Random, how: int) -> None:
        """The client's process starts again, with the same instance id if it has one."""
        self.cut(client)
        client.forget()
        client.producer.forget()

    def _do_kill(self, client: Client, r: random.Random, how: int) -> None:
        self._in_the_middle(r)
        self.kill()

    def _do_power(self, client: Client, r: random.Random, how: int) -> None:
        self._in_the_middle(r)
        self.power_failure(r)

    def _do_stop(self, client: Client, r: random.Random, how: int) -> None:
        self._in_the_middle(r)
        self.stop()

    def _in_the_middle(self, r: random.Random) -> None:
        """Have something under way that a crash may lose or keep."""
        for client in r.sample(self.clients, r.choice([0, 1, 2, 4])):
            call = r.choice(
                [
                    client.commit,
                    client.commit,
                    client.producer.next_call,
                    client.producer.next_call,
                    client.next_call,
                    client.delete_offsets,
                    client.delete_groups,
                ]
            )
            self.send(client, call(r), r.choice([0, 0, 0, 85]))
            if r.random() < 0.7:
                self.core.end_turn()
                self._observe()

    def _do_compact(self, client: Client, r: random.Random, how: int) -> None:
        for hosted in self.core.runtime.all_shards():
            partition = self.core.topics.partition(OFFSETS_TOPIC, hosted.shard.partition)
            assert partition is not None
            if len(partition.log.segments) > 1:
                # How a round ends is seen in the log that it leaves: a replay of it is compared with the table.
                self.core.log_cleaner.compact(partition, self.clock.now(), ended=lambda *_: None)
        self.advance(r.choice([0, 3, 40]))

    def _do_quiet(self, client: Client, r: random.Random, how: int) -> None:
        """All clients do what is proper, and nothing else happens: in the end every partition has its member."""
        calm = Calm(r.getrandbits(32))
        for each in self.clients:
            if each.is_deaf:
                self._do_deaf(each, r, how)
        for _ in range(QUIET_ROUNDS):
            for each in self.clients:
                if each.outbox:
                    self.flush(each)
                if not each.calls:
                    self.send(each, each.next_call(calm), 0)
            self.advance(3000)
        for group in self.oracle.groups.values():
            if isinstance(group, Modern) and group.members and group.target_at <= self.wall:
                names = {group.id: (group.epoch, group.target_epoch, group.members, group.targets)}
                require(group.state == STABLE, f"members come to no rest: {names}")

    def _do_expire(self, client: Client, r: random.Random, how: int) -> None:
        """Have a round of expiry: after it nothing is left that was to go before it and is still."""
        self.advance(r.choice([0, 1000]))
        oracle, ended, wall = self.oracle, [], self.wall
        busy = {key for queue in oracle.queues for d in queue for key, _ in d.offsets}
        due = {key: value for key, value in oracle.table.offsets.items() if oracle.is_expired(key, wall)}
        empty = [
            group for name, group in oracle.groups.items()
            if oracle.is_left_over(name) and not oracle.is_busy(name)
        ]  # fmt: skip
        self.core.expiry.run(self.clock.now(), ended.append)
        for _ in range(1000):
            if ended:
                break
            self.advance(20)
        require(bool(ended), "a round of expiry does not end")
        oracle.settle_but(self.core.under_way())
        busy |= {key for queue in oracle.queues for d in queue for key, _ in d.offsets}
        for key, value in due.items():
            stays = (
                oracle.table.offsets.get(key) is value and key not in busy and oracle.is_expired(key, wall)
            )
            require(not stays, f"the offset of {key}, {value}, has expired and is there")
        for group in empty:
            stays = oracle.groups.get(group.id) is group and oracle.is_left_over(group.id)
            require(not stays or oracle.is_busy(group.id), f"the group {group.id} is empty and is there")
