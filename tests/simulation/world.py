"""A broker in virtual time: its disk, its clients, its crashes, and after every step the question whether it is right.

Nothing here draws a number: all that happens follows from the plan of a seed and from its steps, each a kind, a client
and a number. What the broker does is taken down as events (a request is decided, an answer may leave) and told to the
oracle in that order, so the oracle need not guess in which order one turn takes the requests of several clients;
whether that order is allowed is checked for each connection.
"""

import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups import loading
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.wire.response_aggregator import Part
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.result import Result
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.errors import ProtocolError, StorageError
from tests.simulation.clients import PIPELINED, TOPICS, Call, Client, as_sent
from tests.simulation.consumer_clients import ConsumerClient
from tests.simulation.consumer_model import Modern, loaded
from tests.simulation.exchanged import assignment
from tests.simulation.model import Settings
from tests.simulation.observed import (
    DisagreementError,
    LastingFiles,
    ObservedCore,
    agree,
    check_parked,
    chosen,
    difference,
    in_order,
    observed_group,
    observed_offsets,
    oracle_group,
    read_key,
    require,
    short,
)
from tests.simulation.oracle import Oracle
from tests.simulation.plan import CASTS, GROUPS, INSTANCES, Plan
from tests.simulation.producers import Producer
from tests.storage.crash.crash_files import CrashPoint, RecordingFiles

HOST = "/10.0.0.7"


class World:
    """One run.

    complaints  errors that the broker has logged
    trace       called with a line for everything that happens, if it is given
    rounds      of expiry that are under way, and at which wall time each has begun
    """

    host = HOST

    def __init__(self, plan: Plan, complaints: list[str], trace: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.complaints = complaints
        self.trace = trace
        self.clock = ManualClock(mono_ms=1000)
        self.events: list[tuple[str, Any]] = []
        self.new_ids: deque[str] = deque()
        self.timers: list[tuple[str, str, str]] = []
        self.disk: deque[tuple[int, Callable[[], None]]] = deque()
        self.calls: dict[int, Call] = {}
        self.number = 0
        self.steps = 0
        self.disk_jobs = 0
        self.rounds: dict[int, int] = {}
        self.round_numbers = itertools.count()
        self.ended_rounds: list[int] = []
        self.owners: dict[tuple[str, int], dict[str, str]] = {}
        self.generations: dict[str, int] = {}
        settings = Settings(
            100,
            1_800_000,
            plan.initial_delay_ms,
            plan.max_size,
            4096,
            plan.shards,
            plan.retention_minutes * 60_000,
            plan.max_consumers,
            plan.assignment_pause_ms,
            plan.regex_pause_ms,
        )
        self.chosen: deque[tuple[str, dict[str, Any]]] = deque()
        self.ahead: deque[tuple[str, Any]] = deque()
        self.oracle = Oracle(settings, self._new_id, self._choose, self._given)
        self.files: Any = RecordingFiles() if plan.power else LastingFiles()
        self.group_names = GROUPS[plan.cast]
        self.clients: list[Client] = []
        self.start()
        for topic, count in zip(TOPICS, (4, 4, 2), strict=True):
            topic_admin.create_topic(self.core.broker, topic, count, {})
            self.oracle.topics[topic] = count
            self.oracle.topic_ids[topic] = self.topic_id(topic)
        self.core.shards.create_topic(self.clock.now())
        for partition in range(plan.shards):
            self.core.runtime._host(partition, self.clock.now())
        self.core.transactions.create_topic()
        for topic, count in (OFFSETS_TOPIC, plan.shards), (TRANSACTIONS_TOPIC, 1):
            self.oracle.topics[topic] = count
            self.oracle.topic_ids[topic] = self.topic_id(topic)
        self._watch_shards()
        for number, (group, instance) in enumerate(CASTS[plan.cast]):
            kind = ConsumerClient if group[:1] in ("k", "m") else Client
            self.clients.append(kind(self, number, group, instance))
            self.clients[-1].producer = Producer(self.clients[-1])
            self.connect(self.clients[-1])
        self._turn()

    # What clients ask of it

    @property
    def wall(self) -> int:
        return self.clock.now().wall_ms

    def topic_id(self, topic: str) -> bytes:
        found = self.core.topics.id_and_partition_count(topic)[0]
        return found if any(found) else topic.encode().ljust(16, b"\xee")

    def any_member(self, r: random.Random) -> str:
        return r.choice(self.clients).member

    def assign(self, group: str, generation: int, roster: list[str]) -> dict[str, bytes]:
        """What a leader would make of it: each partition to one member."""
        every = [f"{topic}-{partition}" for topic in TOPICS for partition in range(4)]
        count = len(roster)
        if group[:1] == "m":
            placed = [(name[:-2], int(name[-1])) for name in every]
            return {m: assignment(1, placed[i::count]) for i, m in enumerate(sorted(roster))}
        return {m: ",".join(every[i::count]).encode() for i, m in enumerate(sorted(roster))}

    # The broker's life

    def start(self) -> None:
        plan = self.plan
        self.events.clear()
        config = Config.load({
            "fsync": plan.fsync,
            "fsync.interval.ms": 700,
            "offsets.topic.num.partitions": plan.shards,
            "offsets.topic.segment.bytes": plan.segment_bytes,
            "offsets.topic.compression.codec": plan.codec,
            "group.initial.rebalance.delay.ms": plan.initial_delay_ms,
            "group.max.size": plan.max_size,
            "group.consumer.max.size": plan.max_consumers,
            "group.consumer.assignment.interval.ms": plan.assignment_pause_ms,
            "group.consumer.regex.pause.ms": plan.regex_pause_ms,
            "offsets.retention.minutes": plan.retention_minutes,
            "offsets.retention.check.interval.ms": plan.expiry_ms,
            "connections.max.idle.ms": -1,
            "log.cleaner.delete.retention.ms": plan.delete_retention_ms,
            "transaction.state.log.num.partitions": 1,
        })  # fmt: skip
        self.core = ObservedCore(self.events, config, self.files, self.clock, self._sync, self._background)
        run = self.core.expiry.run
        self.rounds.clear()

        def noted(now: Any, ended: Any) -> None:
            number = next(self.round_numbers)

            def has_ended(count: int) -> None:
                self.ended_rounds.append(number)
                ended(count)

            self.rounds[number] = now.wall_ms
            run(now, has_ended)

        vars(self.core.expiry)["run"] = noted
        self._watch_shards()

    def _watch_shards(self) -> None:
        """Take down member ids that are made and timers that fall due."""
        for hosted in self.core.runtime.all_shards():
            shard = hosted.shard
            if "pop_due" in vars(shard.timers):
                continue
            make, pop = shard.new_member_id, shard.timers.pop_due

            def new_member_id(prefix: str, make: Callable[[str], str] = make) -> str:
                self.new_ids.append(make(prefix))
                return self.new_ids[-1]

            def pop_due(mono_ms: int, pop: Any = pop) -> Any:
                timer = pop(mono_ms)
                if timer is not None:
                    self.events.append(("timer", (timer.kind, timer.group_id, timer.member_id)))
                return timer

            def decide(result: Any, decide: Any = hosted.decide) -> None:
                if isinstance(result, Result) and (made := chosen(result)) is not None:
                    self.chosen.append(made)
                decide(result)

            shard.new_member_id = new_member_id
            vars(shard.timers)["pop_due"] = pop_due
            vars(hosted)["decide"] = decide

    def _new_id(self, prefix: str) -> str:
        made = self.new_ids.popleft()
        require(made.startswith(prefix + "-"), f"a member id {made!r} for {prefix!r}")
        return made

    def _choose(self, group: str) -> dict[str, Any]:
        require(
            bool(self.chosen) and self.chosen[0][0] == group, f"{group} is to be assigned anew and was not"
        )
        return self.chosen.popleft()[1]

    def _given(self, name: str) -> Any:
        """What the broker has stored for a transactional id with the request that it decides."""
        for event in self.ahead:
            if event[0] == "decide":
                break
            if event[0] == "stored" and event[1][0] == name:
                self.ahead.remove(event)
                return event[1][1]
        raise DisagreementError(f"nothing was stored for {name}")

    def _sync(self, logs: list[Any], done: Callable[[Any], None]) -> None:
        def carry_out() -> None:
            for log in logs:
                if not log.closed:
                    log.sync()
            done({})

        self._on_disk(carry_out)

    def _background(self, work: Callable[[], None], done: Callable[[Any], None]) -> None:
        def carry_out() -> None:
            try:
                work()
            except StorageError as error:
                done(error)
            else:
                done(None)

        self._on_disk(carry_out)

    def _on_disk(self, job: Callable[[], None]) -> None:
        """Carry out what waits for the disk, now or when the disk has had its time."""
        self.disk_jobs += 1
        delay_ms = self.disk_jobs * 7 % (self.plan.disk_ms + 1)
        if not delay_ms:
            job()
            return
        due_ms = self.clock.now().mono_ms + delay_ms
        if self.disk:
            due_ms = max(due_ms, self.disk[-1][0])  # one worker
        self.disk.append((due_ms, job))

    def kill(self) -> None:
        """The process dies; its files are as it left them."""
        if self.plan.power:
            operations = self.files.operations
            tree = CrashPoint(self.files.base, operations, len(operations)).process_death()
            self._crash(RecordingFiles(tree))
        else:
            self._crash(self.files.copy())

    def power_failure(self, r: random.Random) -> None:
        """The machine goes down: of what was not synced anything may be missing."""
        if not self.plan.power:
            return
        point = CrashPoint(self.files.base, self.files.operations, len(self.files.operations))
        self._crash(RecordingFiles(point.tree(point.draw(r))))

    def stop(self) -> None:
        """A clean stop, and a start."""
        while self.disk:
            self.disk.popleft()[1]()
            self._turn()
        self.core.close()
        self._observe()
        self.oracle.settle_but(self.core.under_way())  # what waited for the last sync is not written any more
        self._crash(self.files)

    def _crash(self, files: Any) -> None:
        self.disk.clear()
        self.new_ids.clear()
        self.chosen.clear()
        self.timers.clear()
        self.files = files
        for client in self.clients:
            self._drop(client)
        self.start()
        self._adopt()
        self.owners.clear()
        self.generations.clear()
        for client in self.clients:
            self.connect(client)

    def _adopt(self) -> None:
        """Find the state that was loaded among those that the crash may have left."""
        found = []
        for partition, (live, recorded, offsets, pending) in self.core.loaded.items():
            seen = None
            for table in self.oracle.survivors(partition):
                if (
                    table.offsets == offsets
                    and table.pending_offsets() == pending
                    and table.records.keys() == recorded
                    and agree(live, table, self.plan.max_size)
                ):
                    table.simple = {name for name in live if name not in table.records}
                    seen = table
                    break
            if seen is None:
                first = next(self.oracle.survivors(partition))
                raise DisagreementError(
                    f"shard {partition} was loaded as\n  {offsets}\n  {pending}\n  {live}\nand should be, or lack the"
                    f" last of,\n  {first.offsets}\n  {first.pending}\n  {first.records} {first.simple}\nwhere"
                    f" {len(self.oracle.queues[partition])} decisions may be missing"
                )
            found.append(seen)
        self._set_time()
        self.oracle.transactions.load(self.core.loaded_ids)
        self.oracle.load(found)
        for partition, (_, _, _, pending) in self.core.loaded.items():
            self._check_pending(partition, pending)

    def _check_pending(self, partition: int, pending: Any) -> None:
        is_open = self.oracle.transactions.are_open(pending, partition)
        states = self.oracle.transactions.history
        require(
            is_open, f"offsets in shard {partition} wait for markers that never come: {pending}, {states}"
        )

    # Connections

    def connect(self, client: Client) -> None:
        client.connection = self.core.connect(f"test:{client.number}", HOST, client)
        client.is_deaf = False

    def _drop(self, client: Client) -> None:
        for call in client.calls:
            self.calls.pop(call.number, None)
        client.calls.clear()
        client.outbox.clear()
        client.received.clear()
        if client.stage == "joined":
            client.stage = "out"

    def cut(self, client: Client) -> None:
        self.core.disconnect(client.connection)
        for call in client.calls:
            if call.decided and call.expected is None:
                self.calls[call.number] = call  # decided: the oracle has to be told when it takes effect
        gone = [call for call in client.calls if not call.decided]
        for call in gone:
            self.calls.pop(call.number, None)
        client.calls.clear()
        client.outbox.clear()
        client.received.clear()
        if client.stage == "joined":
            client.stage = "out"
        self.connect(client)

    def send(self, client: Client, call: Call, how: int) -> None:
        """Send a request: at once, later together with the next one, or in two parts."""
        self.number += 1
        call.encode(self.number)
        self.calls[self.number] = call
        client.calls.append(call)
        if self.trace:
            self.trace(f"    {call}: {short(call.request)}")
        client.outbox += call.frame
        if how < 80:
            self.flush(client)
        elif how < 90:
            self._deliver(client, 1 + how * len(client.outbox) // 100)

    def flush(self, client: Client) -> None:
        self._deliver(client, len(client.outbox))

    def _deliver(self, client: Client, size: int) -> None:
        data = bytes(client.outbox[:size])
        del client.outbox[:size]
        left = len(client.outbox)
        for call in reversed(client.calls):
            call.sent = left <= 0
            left -= len(call.frame)
        if data:
            try:
                self.core.receive(client.connection, data)
            except ProtocolError as error:
                raise DisagreementError(f"a proper request was refused: {error}") from error
            self._observe()

    # Time

    def advance(self, ms: int) -> None:
        """Let time pass, with everything that is due on the way at its time."""
        target = self.clock.now().mono_ms + ms
        self._turn()
        while True:
            now = self.clock.now().mono_ms
            dues = [
                self.core.next_deadline_ms,
                self.oracle.next_deadline(),
                self.disk[0][0] if self.disk else None,
            ]
            due = min((due for due in dues if due is not None), default=target)
            if due > target:
                self.clock.advance(target - now)
                self._set_time()
                return
            self.clock.advance(max(due - now, 0))
            self._due()
            self._turn()

    def stall(self, ms: int) -> None:
        """The process is stopped for a while: what was due meanwhile is due at once."""
        self.clock.advance(ms)
        self._due()
        self._turn()

    def _set_time(self) -> None:
        now = self.clock.now()
        self.oracle.now, self.oracle.wall = now.mono_ms, now.wall_ms

    def _due(self) -> None:
        self._set_time()
        now = self.clock.now().mono_ms
        while self.disk and self.disk[0][0] <= now:
            self.disk.popleft()[1]()
            self._observe()
            self.core.end_turn()
            self._observe()
        # A turn that the clock has moved in ends first: what it has decided sets timers, and lets further requests in.
        self.core.end_turn()
        self._observe()
        self.core.run_due()
        self._observe()
        self.oracle.tick(self.timers)
        self.timers.clear()

    def _turn(self) -> None:
        """End the turn of the loop, and those after it that have something to do already."""
        self._set_time()
        for _ in range(1000):
            more = self.core.end_turn()
            self._observe()
            due = self.core.next_deadline_ms
            if due is not None and due <= self.clock.now().mono_ms:
                self._due()
            elif not more and not self._read():
                break
        else:
            raise DisagreementError("the broker finds no rest")
        self._check_idle()

    # What the broker did

    def _observe(self) -> None:
        """Tell the oracle what has happened, in its order."""
        if not self.events:
            return
        ahead = self.ahead = deque(self.events)
        self.events.clear()
        while ahead:
            kind, what = ahead.popleft()
            if kind == "decide":
                number, under_way = what
                self.oracle.settle_but(under_way)
                self._decided(self.calls[number])
            elif kind == "go on":
                number, under_way = what
                self.oracle.settle_but(under_way)
                if (call := self.calls.get(number)) is not None and call.go_on is not None:
                    call.go_on(self.oracle)
            elif kind == "stored":
                self.oracle.transactions.stored(*what, self.wall)
            elif kind == "marker":
                shard, producer_id, commits, under_way = what
                self.oracle.settle_but(under_way)
                self.oracle.marked(producer_id, shard, commits=commits)
            elif kind == "timer":
                self.timers.append(what)
            elif kind == "went":
                keys, under_way = what
                self.oracle.tick(self.timers, no_others=True)
                self.oracle.settle_but(under_way)
                self._went([read_key(key) for key in keys])
            else:
                self._replied(*what)
        for number in self.ended_rounds:
            self.rounds.pop(number, None)  # it may be one of the process before
        self.ended_rounds.clear()
        require(not self.new_ids, "a member id was made for nobody")
        require(not self.chosen, f"an assignment was made for nobody: {self.chosen}")
        if self.complaints:
            raise DisagreementError("the broker has logged an error: " + self.complaints[0])

    def _decided(self, call: Call) -> None:
        for before in call.client.calls:
            if before is call:
                break
            if not before.decided:
                raise DisagreementError(f"{call} was decided before {before}")
            if before.expected is None and not before.key == call.key in PIPELINED:
                raise DisagreementError(f"{call} was decided while {before} waits")
        if call.decided:
            raise DisagreementError(f"{call} was decided twice")
        call.decided = True
        if self.trace:
            self.trace(f"    {call} is decided")
        call.ask(self.oracle, call.number)

    def _replied(self, context: Any, response: Any) -> None:
        receiver = context.receiver
        part = None if receiver is None else getattr(receiver.refuse, "__self__", None)
        if isinstance(part, Part):
            self.oracle.took_effect((context.correlation_id, part.index))
            return
        number = context.correlation_id
        self.oracle.took_effect(number)
        self.oracle.transactions.answered(number)
        self._check_holders()
        if number not in self.oracle.answers:
            raise DisagreementError(f"#{number} was answered and should still wait: {response}")
        call = self.calls.pop(number)
        call.expected = as_sent(call, self.oracle.answers.pop(number))
        call.parts = [late() for late in call.parts]
        if call.key == 14 and response.error_code == 0 and not self.plan.cast:
            self._check_owners(call.request, response)
        elif call.key == 11 and response.error_code == 0:
            group = call.request.group_id
            before = self.generations.get(group, 0)
            fell = group in self.oracle.groups and response.generation_id < before and not self.plan.cast
            require(not fell, f"the generation of {group} fell from {before} to {response.generation_id}")
            self.generations[group] = response.generation_id

    def _went(self, keys: list[Any]) -> None:
        """The broker has let go of offsets and groups that nobody asked it to delete."""
        groups = list(dict.fromkeys(key for key in keys if isinstance(key, str)))
        problem = self.oracle.went(
            [key for key in keys if not isinstance(key, str)], groups, (self.wall, *self.rounds.values())
        )
        require(problem is None, str(problem))
        if self.trace:
            self.trace(f"    went: {keys}")
        for group in groups:
            self.forget_group(group)

    def forget_group(self, group: str) -> None:
        """It was deleted, and begins at generation 0 if it comes again."""
        self.generations.pop(group, None)
        for known in [known for known in self.owners if known[0] == group]:
            del self.owners[known]

    def _check_holders(self) -> None:
        """No partition is held by two members of a consumer group."""
        for group in self.oracle.groups.values():
            if isinstance(group, Modern):
                twice = [place for place, count in group.held().items() if count > 1]
                require(not twice, f"{twice} of {group.id} are held by several: {group}")

    def _check_owners(self, request: Any, response: Any) -> None:
        member = request.member_id
        if member[:-37] in INSTANCES:  # a static one, whose member id changes while its assignment stays
            member = member[:-37]
        owners = self.owners.setdefault((request.group_id, request.generation_id), {})
        for partition in filter(None, response.assignment.decode().split(",")):
            owner = owners.setdefault(partition, member)
            generation = f"generation {request.generation_id} of {request.group_id}"
            require(owner == member, f"{partition} belongs to {owner} and to {member} in {generation}")

    def _read(self) -> bool:
        """Let clients read their answers; return whether there were any."""
        any_read = False
        for connection in list(self.core.responses.take_output()):
            client = connection.owner
            require(
                not connection.closing or client.connection is not connection,
                f"{client.client_id} was cut off",
            )
            # A connection without output is there to be read from again.
            if client.connection is connection and not client.is_deaf and connection.output_bytes:
                any_read = True
                self.read(client)
        return any_read

    def read(self, client: Client) -> None:
        client.received += self.core.drain(client.connection)
        received = client.received
        while len(received) >= 4:
            size = int.from_bytes(received[:4], "big")
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            require(bool(client.calls), f"{client.client_id} got an answer to nothing")
            self._judge(client.calls.popleft(), frame)

    def _judge(self, call: Call, frame: bytes) -> None:
        if call.expected is None:
            raise DisagreementError(f"{call} was answered and should still wait")
        answer = call.decode(frame)
        view = call.view(answer)
        if self.trace:
            self.trace(f"    {call} <- {in_order(view)}")
        if view != call.expected and not self._is_between(call, view):
            raise DisagreementError(
                f"{call}\n  asked      {short(call.request)}\n  answered   {in_order(view)}"
                f"\n  should be  {in_order(call.expected)}"
            )
        call.learn(answer)

    def _is_between(self, call: Call, view: Any) -> bool:
        return any(
            all(entry in (call.expected[name], late[name]) for name, entry in view.items())
            for late in call.parts
        )

    # What must hold

    def _check_idle(self) -> None:
        """With nothing on the way to the disk everything is settled, and no request is forgotten."""
        if self.disk:
            return
        self.oracle.settle_but(self.core.under_way())
        if self.core.has_work:
            return
        if not self.core.expiry._deletions:
            left = [key for key, _ in self.oracle.doomed if self.oracle.is_doomed(key)]
            require(not left, f"offsets of deleted topics are left: {left}")
            self.oracle.drop_gone()
        for number in self.oracle.answers:
            raise DisagreementError(f"{self.calls.get(number, number)} waits and should be answered")
        for client in self.clients:
            for call in client.calls:
                if call.decided or not call.sent:
                    break
                raise DisagreementError(f"{call} is at the head of its connection and was not decided")

    def check(self) -> None:
        """Compare everything: offsets and groups with the oracle, and both with a replay of the logs."""
        self._observe()  # what a start has done, where no turn has ended since
        self.oracle.settle_but(self.core.under_way())
        for hosted in self.core.runtime.all_shards():
            if hosted.has_pending:
                continue
            shard = hosted.shard
            live = observed_offsets(shard)
            table = self.oracle.table_of(shard.partition)
            mine = table.offsets, table.pending_offsets()
            require(live == mine, f"the live table is\n  {live}\nand should be\n  {mine}")
            self._check_pending(shard.partition, shard.pending)
            groups = {name: observed_group(group) for name, group in shard.groups.items()}
            judged = {
                n: oracle_group(g)
                for n, g in self.oracle.groups.items()
                if self.oracle.shard_of(n) == shard.partition
            }
            require(groups == judged, f"the groups are, and should be,\n{difference(groups, judged)}")
            replayed = Shard(shard.partition, GroupSettings(), shard.new_member_id, shard.topics)
            loading.replay(replayed, hosted.log, None)
            again = observed_offsets(replayed)
            require(again == live, f"a replay of the log gives\n  {again}\nand the live table is\n  {live}")
            for name, group in replayed.groups.items():
                kept = self.oracle.table.records.get(name)
                if isinstance(group, ConsumerGroup):
                    seen = observed_group(group.committed())
                    due = kept and oracle_group(loaded(name, kept))
                    require(seen == due, f"the log has {seen} of {name}, not {due}")
                    continue
                said = None if group.durable is None else group.durable.generation
                require(
                    said == (None if kept is None else kept["generation"]),
                    f"the log has generation {said} of {name}, not {kept}",
                )
            check_parked(shard, self.clock.now().mono_ms)
