"""Producers that commit the offsets of groups in transactions; several have one transactional id, and fence each
other."""

import random
from typing import Any

from kafka_offsets.protocol import messages
from tests.simulation.clients import Call, Client
from tests.simulation.oracle import Oracle

FENCED = (47, 49, 90)


class Producer:
    """The producer of a client.

    given   its producer id and epoch, -1 while it has none
    begun   whether it has a transaction, as far as it knows
    is_old  it speaks the protocol of before KIP-890 in this transaction
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.name = f"x{client.number % 3}"
        self.forget()

    def forget(self) -> None:
        self.given = -1, -1
        self.begun = self.is_old = False

    def next_call(self, r: random.Random) -> Call:
        """What a proper producer would send now, most of the time."""
        groups = self.client.world.group_names
        group = self.client.group if self.client.group and r.random() < 0.9 else r.choice([*groups, ""])
        if self.given[0] == -1 or r.random() < 0.02:
            return self._init(r)
        producer = (
            self.given if r.random() < 0.95 else (self.given[0] + r.choice([-1, 0, 1]), self.given[1] - 1)
        )
        if self.begun and r.random() < 0.4:
            return self._end(r, producer)
        if not self.begun:
            self.is_old = r.random() < 0.5
        if self.is_old and (not self.begun or r.random() < 0.1) and group:
            return self._add(r, producer, group)
        return self._commit(r, producer, group)

    def _init(self, r: random.Random) -> Call:
        timeout_ms = r.choice([5000, 20_000, 60_000])
        call = Call(
            self.client,
            "InitProducerId",
            r.randint(0, 5),
            messages.InitProducerIdRequest(self.name, timeout_ms),
        )

        def ask(oracle: Oracle, number: int) -> None:
            error = oracle.transactions.init(self.name, timeout_ms)
            error = oracle.transactions.settle(number, self.name, error)
            oracle.answers[number] = error, *oracle.transactions.producer(self.name, error)

        def learn(answer: Any) -> None:
            if not answer.error_code:
                self.forget()
                self.given = answer.producer_id, answer.producer_epoch

        call.ask, call.learn = ask, learn
        call.view = lambda answer: (answer.error_code, answer.producer_id, answer.producer_epoch)
        return call

    def _add(self, r: random.Random, producer: tuple[int, int], group: str) -> Call:
        version = r.randint(0, 4)
        request = messages.AddOffsetsToTxnRequest(self.name, *producer, group)
        call = Call(self.client, "AddOffsetsToTxn", version, request)

        def ask(oracle: Oracle, number: int) -> None:
            error = oracle.transactions.add(self.name, producer, oracle.shard_of(group), oracle.wall)
            oracle.answers[number] = known(version, oracle.transactions.settle(number, self.name, error))

        call.ask = ask
        call.view = lambda answer: answer.error_code
        call.learn = lambda answer: self._learn(answer.error_code, begins=True)
        return call

    def _commit(self, r: random.Random, producer: tuple[int, int], group: str) -> Call:
        version = r.choice([0, 2, 3, 4, 4]) if self.is_old else 5
        client, cls = self.client, messages.TxnOffsetCommitRequest
        items = client._items(r, epochs=version >= 2)
        fields: dict[str, Any] = {}
        if version >= 3 and r.random() < (0.7 if client.stage == "stable" else 0.1):
            fields = {
                "generation_id": client.generation + (r.choice([-1, 1]) if r.random() < 0.1 else 0),
                "member_id": client.member if r.random() < 0.95 else client.world.any_member(r),
                "group_instance_id": client.static,
            }
        topics = [
            cls.Topic(topic, [cls.Partition(p, offset, epoch, metadata) for t, p, offset, epoch, metadata, _ in items
                              if t == topic])
            for topic in dict.fromkeys(item[0] for item in items)
        ]  # fmt: skip
        request = cls(self.name, group, *producer, topics=topics, **fields)
        call = Call(client, "TxnOffsetCommit", version, request)
        missing: dict[tuple[str, int], int] = {}

        def ask(oracle: Oracle, number: int) -> None:
            places = {(t, p) for t, p, *_ in items}
            missing.update(dict.fromkeys(oracle.missing(items), 3))
            error = oracle.enter(version, self.name, producer, group) if places - missing.keys() else 0
            if error or not places - missing.keys():
                oracle.answers[number] = sorted((t, p, missing.get((t, p), error)) for t, p in places)
                call.go_on = None
            else:
                call.go_on = lambda oracle: oracle.commit_in_transaction(
                    number, self.name, producer, group, request.generation_id, request.member_id,
                    request.group_instance_id, items, missing,
                )  # fmt: skip

        call.ask = ask
        call.view = lambda answer: sorted(
            (t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions
        )

        def learn(answer: Any) -> None:
            errors = {p.error_code for t in answer.topics for p in t.partitions} - {3, 12}
            self._learn(next(iter(errors), 3), begins=version >= 5)

        call.learn = learn
        return call

    def _end(self, r: random.Random, producer: tuple[int, int]) -> Call:
        version, commits = r.randint(0, 4) if self.is_old else 5, r.random() < 0.6
        call = Call(self.client, "EndTxn", version, messages.EndTxnRequest(self.name, *producer, commits))

        def ask(oracle: Oracle, number: int) -> None:
            error = oracle.transactions.end(self.name, producer, commits=commits, renews=version >= 5)
            error = oracle.transactions.settle(number, self.name, error)
            told = oracle.transactions.producer(self.name, error if version >= 5 else -1)
            oracle.answers[number] = known(version, error), *told

        def learn(answer: Any) -> None:
            self._learn(answer.error_code, begins=False)
            if answer.error_code in (0, 48):
                self.begun = False
                self.given = (
                    (answer.producer_id, answer.producer_epoch) if answer.producer_id != -1 else self.given
                )

        call.ask, call.learn = ask, learn
        call.view = lambda answer: (answer.error_code, answer.producer_id, answer.producer_epoch)
        return call

    def _learn(self, error: int, *, begins: bool) -> None:
        if error in FENCED:
            self.forget()
        elif error in (48, 120):
            self.begun = False
        elif error == 0 and begins:
            self.begun = True


def known(version: int, error: int) -> int:
    """An error as versions 0 and 1 of the producers' requests know it."""
    return 47 if error == 90 and version < 2 else error
