"""A broker in a test's process beside a plain dict: the Python API, the wire and the log say the same at every moment.

The directories are in memory where the machine has such a folder: what is told apart here is what the broker wrote, not
what a disk kept, and waiting for its fsync took most of the time.

Rules are what a program does with one: create and delete topics, commit with `Broker.commit`, on condition or not, or
over a socket, delete offsets and groups, stop and start, or go on with the directory of a broker that was not stopped.
Run with HYPOTHESIS_PROFILE=long for the long form.
"""

import contextlib
import os
import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kafka_offsets import Broker, CommitRefusedError, ErrorCode
from kafka_offsets.protocol.records import batch_spans, read_batch_header, read_records
from tests.conftest import IN_CI, LONG
from tests.drivers.wire import Connection, array, offset_commit, offset_commit_errors, text
from tests.simulation.observed import read_key

EXAMPLES, STEPS = (2000, 100) if LONG else (100, 50)
DELETE_TOPICS, DELETE_GROUPS, OFFSET_DELETE = 20, 42, 47

groups = st.sampled_from(["g", "h", ""])
topics = st.sampled_from(["orders", "clicks", "nowhere"])
places = st.tuples(topics, st.integers(0, 3))
offsets = st.integers(0, 2**63 - 1)


class PublicApi(RuleBasedStateMachine):
    """committed: what must be committed. counts: the topics that exist. known: groups that may exist."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(
            tempfile.mkdtemp(prefix="kafka-offsets-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        )
        self.lives = 0
        self.committed: dict[str, dict[tuple[str, int], int]] = {"g": {}, "h": {}, "": {}}
        self.counts: dict[str, int] = {}
        self.known: set[str] = set()
        self.broker: Broker | None = None

    @initialize(fsync=st.sampled_from(["never", "never", "interval", "commit"]))
    def start_afresh(self, fsync: str) -> None:
        self.config = {"fsync": fsync, "offsets.topic.num.partitions": 2, "offsets.topic.segment.bytes": 2000}
        self._start()
        self.create_topic("orders", 3)
        self.create_topic("behind", 1)

    def _start(self) -> None:
        self.broker = Broker(self.config, data_directory=self.root / str(self.lives))
        self.broker.start()
        self.wire = Connection(self.broker.bootstrap_servers)

    def teardown(self) -> None:
        if self.broker is not None:
            self.wire.socket.close()
            self.broker.stop()
        shutil.rmtree(self.root)

    # What programs do

    @rule(topic=topics.filter(lambda name: name != "nowhere"), count=st.integers(1, 3))
    def create_topic(self, topic: str, count: int) -> None:
        assert self.broker is not None
        expected = (
            pytest.raises(ValueError, match=topic) if topic in self.counts else contextlib.nullcontext()
        )
        with expected:
            self.broker.create_topic(topic, count)
        self.counts.setdefault(topic, count)

    @rule(topic=topics)
    def delete_topic(self, topic: str) -> None:
        answer = self.wire.call(DELETE_TOPICS, 1, array([text(topic)]) + struct.pack(">i", 1000))
        (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
        assert error == (0 if self.counts.pop(topic, None) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for table in self.committed.values():
            for place in [place for place in table if place[0] == topic]:
                del table[place]
        if (
            self.config["fsync"] == "commit"
        ):  # the deletions have taken effect when commits after them are answered
            for group in self.committed:
                self.commit(group, {("behind", 0): 0})

    @rule(group=groups, wanted=st.dictionaries(places, offsets, min_size=1, max_size=4))
    def commit(self, group: str, wanted: dict[tuple[str, int], int]) -> None:
        assert self.broker is not None
        there = {place: offset for place, offset in wanted.items() if place[1] < self.counts.get(place[0], 0)}
        if there == wanted:
            self.broker.commit(group, wanted)
        else:
            with pytest.raises(CommitRefusedError) as refused:
                self.broker.commit(group, wanted)
            assert refused.value.errors == dict.fromkeys(
                wanted.keys() - there, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        self._committed(group, there)

    @rule(group=groups, place=places, offset=offsets, guess=st.sampled_from(["right", "none", "wrong"]))
    def commit_on_condition(self, group: str, place: tuple[str, int], offset: int, guess: str) -> None:
        assert self.broker is not None
        current = self.committed[group].get(place)
        expected = {"right": current, "none": None, "wrong": (current or 0) // 2 + 7}[guess]
        exists = place[1] < self.counts.get(place[0], 0)
        if exists and expected == current:
            self.broker.commit(group, {place: offset}, {place: expected})
            self._committed(group, {place: offset})
            return
        with pytest.raises(CommitRefusedError) as refused:
            self.broker.commit(group, {place: offset}, {place: expected})
        error = ErrorCode.COMMITTED_OFFSET_MISMATCH if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert refused.value.errors == {place: error}
        if exists:
            assert refused.value.found == {place: -1 if current is None else current}

    @rule(group=groups, topic=topics, offset=offsets, count=st.integers(1, 3))
    def commit_over_the_wire(self, group: str, topic: str, offset: int, count: int) -> None:
        self.wire.socket.sendall(offset_commit(3, group, topic, offset, count))
        errors = offset_commit_errors(self.wire.receive(), topic)
        there = min(self.counts.get(topic, 0), count)
        assert errors == {0} & {0 for _ in range(there)} | ({3} if there < count else set())
        self._committed(group, {(topic, partition): offset for partition in range(there)})

    def _committed(self, group: str, there: dict[tuple[str, int], int]) -> None:
        self.committed[group] |= there
        if there:
            self.known.add(group)

    @rule(group=groups, place=places)
    def delete_offset(self, group: str, place: tuple[str, int]) -> None:
        asked = array([text(place[0]) + array([struct.pack(">i", place[1])])])
        answer = self.wire.call(OFFSET_DELETE, 0, text(group) + asked)
        (error,) = struct.unpack_from(">h", answer)
        if not group:
            assert error == ErrorCode.INVALID_GROUP_ID
        elif not self.committed[group]:
            assert error in (0, ErrorCode.GROUP_ID_NOT_FOUND) if group in self.known else error
        else:
            assert error == 0
            (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
            assert error == (0 if place[1] < self.counts.get(place[0], 0) else 3)
            self.committed[group].pop(place, None)

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        answer = self.wire.call(DELETE_GROUPS, 0, array([text(group)]))
        (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
        if self.committed[group]:
            assert error == 0
        else:
            assert error in (
                (0, ErrorCode.GROUP_ID_NOT_FOUND) if group in self.known else (ErrorCode.GROUP_ID_NOT_FOUND,)
            )
        self.committed[group].clear()
        self.known.discard(group)

    @rule()
    def restart(self) -> None:
        assert self.broker is not None
        self.wire.socket.close()
        self.broker.stop()
        assert self._logged() == {g: table for g, table in self.committed.items() if table}
        self._start()

    @rule()
    def go_on_with_the_files_as_they_are(self) -> None:
        """What a broker finds whose predecessor was killed: all that was acknowledged is in the files."""
        assert self.broker is not None
        old = self.broker, self.wire, self.root / str(self.lives)
        self.lives += 1
        shutil.copytree(old[2], self.root / str(self.lives))
        self._start()
        old[1].socket.close()
        old[0].stop()
        shutil.rmtree(old[2])

    # What must hold

    def _logged(self) -> dict[str, dict[tuple[str, int], int]]:
        """The last value of each key in the segments."""
        found: dict[str, dict[tuple[str, int], int]] = {}
        for path in sorted((self.root / str(self.lives)).glob("__consumer_offsets-*/*.log")):
            data = path.read_bytes()
            for start, _, _ in batch_spans(data):
                for record in read_records(data, start, read_batch_header(data, start)):
                    key = read_key(record.key or b"")
                    if isinstance(key, str):
                        continue
                    group, topic, partition = key
                    table = found.setdefault(group, {})
                    table.pop((topic, partition), None)
                    if record.value is not None:
                        table[topic, partition] = int.from_bytes(record.value[2:10], "big")
        return {group: table for group, table in found.items() if table}

    @invariant()
    def committed_offsets_are_those_that_were_acknowledged(self) -> None:
        if self.broker is None:
            return
        for group, table in self.committed.items():
            assert {place: entry.offset for place, entry in self.broker.committed(group).items()} == table

    @rule(group=groups, topic=topics)
    def fetch_over_the_wire(self, group: str, topic: str) -> None:
        found = self.wire.fetch_offsets(group, topic, 4)
        assert isinstance(found, dict)
        assert {p: offset for p, (offset, _) in found.items()} == {
            p: self.committed[group].get((topic, p), -1) for p in range(4)
        }


@pytest.mark.timeout(
    900
)  # the number of steps bounds it; half a minute of CPU, whatever else the machine does
def test_the_api_the_wire_and_the_log_agree_with_a_dict() -> None:
    run_state_machine_as_test(
        PublicApi,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=IN_CI,
            suppress_health_check=list(HealthCheck),
            phases=[
                Phase.explicit,
                Phase.reuse,
                Phase.generate,
            ],  # steps that wait for a disk take too long to shrink
        ),
    )
