"""The oracle's part for transactions: what producers are answered, and when offsets count that wait for a marker.

Producer ids and epochs are the broker's choice: `given` tells what it has stored for a transactional id, and it is
asked whether that may follow what was stored before. When a time-out is noticed and when a marker is written
is observed as well.
Written from KIP-98, 360 and 890 and the behaviour of Apache Kafka 4.3.1. Not modelled: producers that name their old id
in InitProducerId, ids whose epochs are used up, records of other topics.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

Producer = tuple[int, int]
"""Producer id and epoch."""

EMPTY, ONGOING = "EMPTY", "ONGOING"
PREPARED = {False: "PREPARE_ABORT", True: "PREPARE_COMMIT"}
COMPLETE = {False: "COMPLETE_ABORT", True: "COMPLETE_COMMIT"}


class Transaction(NamedTuple):
    """A transactional id: its producer, its state, and the partitions of the offsets topic that it has written to."""

    producer: Producer
    state: str = EMPTY
    shards: frozenset[int] = frozenset()
    timeout_ms: int = 0

    def is_prepared(self) -> bool:
        return self.state in PREPARED.values()


class Transactions:
    """All transactional ids of one broker.

    given     id -> what the broker has stored for it in this decision
    history   id -> its states, from the one on that no crash can take back; None for none
    awaited   token -> what is durable when its request is answered
    unmarked  id -> partitions that still need a marker
    ends      id -> wall time at which its last transaction has taken too long
    """

    def __init__(self, given: Callable[[str], Transaction]) -> None:
        self.given = given
        self.history: dict[str, list[Transaction | None]] = {}
        self.awaited: dict[int, tuple[str, Transaction | None]] = {}
        self.unmarked: dict[str, set[int]] = {}
        self.ends: dict[str, int] = {}

    def current(self, name: str) -> Transaction | None:
        return self.history.get(name, [None])[-1]

    def producer(self, name: str, error: int) -> Producer:
        """What a producer is told of itself."""
        found = self.current(name)
        return (-1, -1) if error or found is None else found.producer

    def settle(self, token: int, name: str, error: int) -> int:
        """The answer to a request, `error` or none, rests on the state of an id."""
        self.awaited[token] = name, self.current(name)
        return error

    def answered(self, token: int) -> None:
        """An answer leaves, so that no crash can take back what it rests on."""
        name, state = self.awaited.pop(token, ("", None))
        states = self.history.get(name, [])
        if any(each is state for each in states):
            while states[0] is not state:
                del states[0]

    def _move(self, name: str, state: str, shards: frozenset[int] = frozenset(), *, renewed: bool) -> None:
        before, after = self.current(name), self.given(name)
        assert after[1:3] == (state, shards), f"{name} is {after} and should be {state} with {shards}"
        if before is not None:
            (id_, epoch), (old_id, old_epoch) = after.producer, before.producer
            fits = id_ == old_id and epoch > old_epoch if renewed else after.producer == before.producer
            assert fits, f"{name} was {before} and is {after}"
        self.history.setdefault(name, [None]).append(after)
        if after.is_prepared():
            self.unmarked[name] = set(shards)

    # What producers ask

    def init(self, name: str, timeout_ms: int) -> int:
        found = self.current(name)
        if found is None or found.state in (EMPTY, *COMPLETE.values()):
            self._move(name, EMPTY, renewed=True)
            stored = self.current(name)
            assert stored is not None and stored.timeout_ms == timeout_ms, f"{name} is {stored}"
            return 0
        if found.state == ONGOING:
            self._move(name, PREPARED[False], found.shards, renewed=True)
        return 51

    def _check(self, name: str, producer: Producer) -> int:
        found = self.current(name)
        if found is None or found.producer[0] != producer[0]:
            return 49
        if found.producer != producer:
            return 90
        return 51 if found.is_prepared() else 0

    def add(self, name: str, producer: Producer, shard: int, wall: int) -> int:
        """Have a partition in the open transaction, which begins with its first one."""
        error, found = self._check(name, producer), self.current(name)
        if not error and found is not None:
            had = found.shards if found.state == ONGOING else frozenset()
            if shard not in had:
                self._move(name, ONGOING, had | {shard}, renewed=False)
            if not had:
                self.ends[name] = wall + found.timeout_ms
        return error

    def verify(self, name: str, producer: Producer, shard: int) -> int:
        error, found = self._check(name, producer), self.current(name)
        return error or (0 if found is not None and shard in found.shards else 120)

    def end(self, name: str, producer: Producer, *, commits: bool, renews: bool) -> int:
        """`renews` since version 5: the producer gets another epoch, and may ask again as who it was."""
        found = self.current(name)
        if found is None or found.producer[0] != producer[0]:
            return 49
        again = renews and found.producer[1] == producer[1] + 1
        complete = found.state in COMPLETE.values()
        if found.producer != producer and not (again and (complete or found.is_prepared())):
            return 90
        if renews and found.is_prepared() and not again:
            return 90
        same = found.state in (PREPARED[commits], COMPLETE[commits])
        if found.state == ONGOING:
            self._move(name, PREPARED[commits], found.shards, renewed=renews)
        elif found.is_prepared():
            return 51 if same else 48
        elif again or not renews:
            return 0 if same else 48
        elif commits:
            return 48
        else:
            self._move(name, PREPARED[False], renewed=True)
        return 0

    # What happens by itself

    def stored(self, name: str, after: Transaction | None, wall: int) -> None:
        """The broker has stored something that nobody asked for: the end of a transaction, or that of an id."""
        before = self.current(name)
        if after is not None and after.state == PREPARED[False]:
            timed_out = before is not None and before.state == ONGOING and wall > self.ends[name]
            assert timed_out, f"{name} was {before} and is {after} before its time {self.ends[name]}"
            self.unmarked[name] = set(after.shards)
        elif after is not None:
            ended = before is not None and PREPARED[after.state == COMPLETE[True]] == before.state
            assert ended and not self.unmarked[name], (
                f"{name} was {before}, lacks {self.unmarked[name]}, is {after}"
            )
        else:
            assert before is None or (before.state != ONGOING and not before.is_prepared()), (
                f"{before} of {name} went"
            )
        self.history.setdefault(name, [None]).append(after)

    def marked(self, producer_id: int, shard: int, *, commits: bool) -> None:
        """A marker is written: its transaction is about to end in this way, whatever happens."""
        for name, states in self.history.items():
            last = states[-1]
            if last and (last.producer[0], last.state) == (producer_id, PREPARED[commits]):
                assert shard in self.unmarked[name], f"{name} has its marker in {shard} twice"
                self.unmarked[name].discard(shard)
                del states[:-1]
                return
        raise AssertionError(f"a marker of {producer_id} in {shard}: {self.history}")

    def written(self, name: str, producer: Producer, shard: int) -> None:
        """Offsets are written as part of a transaction: no crash may leave them without it, though without its end."""
        states = self.history[name]
        began = (each for each in states if each and each.producer == producer and shard in each.shards)
        if (first := next(began, None)) is not None:  # else its end is durable as well
            del states[: states.index(first)]

    def load(self, found: dict[str, Transaction]) -> None:
        """Come up with what a crash has left."""
        for name in self.history.keys() | found.keys():
            states, now = self.history.get(name, []), found.get(name)
            assert now in states, f"{name} was loaded as {now} and should be one of {states}"
            self.history[name] = [now]
            self.unmarked[name] = set(now.shards) if now else set()
        self.awaited.clear()

    def are_open(self, producer_ids: Iterable[int], shard: int) -> bool:
        """Whether a transaction of each has written to a partition and has not ended."""
        last = [states[-1] for states in self.history.values()]
        found = {
            t.producer[0] for t in last if t and (t.state == ONGOING or t.is_prepared()) and shard in t.shards
        }
        return found.issuperset(producer_ids)
