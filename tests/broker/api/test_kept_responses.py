"""Kept responses: always the bytes that the handler would make anew."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.api import kept_responses, metadata
from kafka_offsets.broker.api.kept_responses import KeptResponses
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.core.requests import RequestDispatcher
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.wire.api import Api, Apis
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.directory.catalogue import NewTopic
from tests.drivers.core import CoreClient, make_core, request_frame

METADATA, FIND_COORDINATOR = 3, 10
NAMES = ("a", "b", "c")
CHANGES = ("create", "delete", "grow", "open", "configure", "table", "refuse")
TARGETS = (*NAMES, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


def asked() -> Iterator[tuple[messages.MessageValue, int]]:
    """Requests that clients repeat, in several versions; `b` is created by Metadata."""
    describe = messages.MetadataRequest
    for version in (4, 12):
        yield describe(None, allow_auto_topic_creation=False), version
        yield describe([describe.Topic(name="b")], allow_auto_topic_creation=True), version
        yield describe([describe.Topic(name=name) for name in "ac"], allow_auto_topic_creation=False), version
    for version, key_type in product((3, 4), (0, 1)):
        find = messages.FindCoordinatorRequest
        if version < 4:
            yield find("group", key_type), version
        else:
            yield find(key_type=key_type, coordinator_keys=["group", "other"]), version
    for version, software in product((3, 4), ("client", "no name!")):
        yield messages.ApiVersionsRequest(software, "1"), version


REQUESTS = list(asked())


class Forgetful(RequestDispatcher):
    """Keeps nothing."""

    def _shortcut_of(self, api: Api) -> None:
        return None


def kept(core: BrokerCore, key: int) -> KeptResponses:
    """Return the kept responses of an API."""
    shortcut = core.requests._shortcuts[key]
    assert isinstance(shortcut, KeptResponses)
    return shortcut


class Pair:
    """Two clients of a broker: the responses of one are never kept."""

    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self.keeping, self.fresh = CoreClient(core), CoreClient(core)
        self._anew = Forgetful(core.broker)

    def responses(self, request: messages.MessageValue, version: int) -> tuple[bytes | None, bytes | None]:
        """Return the response that may be kept, and the one made anew afterwards."""
        frame = request_frame(request, version)
        self.keeping.send_bytes(frame)
        self.core.end_turn()
        self.fresh.connection.reader.feed(frame)
        self._anew.serve(self.fresh.connection, self.core.clock.now())
        self.core.end_turn()
        return self.keeping.take_frame(), self.fresh.take_frame()


def change(core: BrokerCore, what: str, name: str) -> None:
    """Change something that a response may depend on, if that is possible now."""
    client, topic = CoreClient(core), core.topics.get(name)
    if what == "table":
        rows = [row for row in core.broker.apis if row.name != "ListGroups"]
        core.broker.apis = Apis(replace(row, versions=row.versions) for row in rows)
    elif what == "create" and topic is None and name in NAMES:
        core.topics.create_several([NewTopic(name, 2)])
    elif topic is None:
        return
    elif what == "delete":
        client.call(messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 3)
    elif what == "grow" and name in NAMES:
        core.topics.add_partitions(name, topic.partition_count + 1)
    elif what == "open":
        core.topics.partition(name, 0)
    elif what == "configure" and name in NAMES:
        core.topics.set_configs(name, {"retention.ms": "1000"})


def refusing(*_: object) -> None:
    raise StorageError("full")


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(TARGETS)), min_size=1, max_size=6))
def test_a_kept_response_is_the_one_made_anew_after_any_changes(changes: list[tuple[str, str]]) -> None:
    core = make_core(coordinator_warm=True)
    pair = Pair(core)
    refuses = False
    for what, name in changes:
        refuses ^= what == "refuse"
        if not refuses:
            change(core, what, name)
        with mock.patch.object(core.topics, "install", refusing) if refuses else mock.MagicMock():
            for request, version in REQUESTS * 2:
                first, anew = pair.responses(request, version)
                assert first is not None
                assert first == anew, (what, name, request, version)


def test_a_response_is_kept_until_something_changes() -> None:
    core = make_core()
    pair = Pair(core)
    core.topics.create("a", 2)
    request = messages.MetadataRequest([messages.MetadataRequest.Topic(name="a")])
    pair.keeping.call(request, 9)
    assert len(kept(core, METADATA)) == 1
    with mock.patch.object(metadata, "_answered", mock.Mock(side_effect=AssertionError)):
        assert len(pair.keeping.call(request, 9).topics[0].partitions) == 2
    core.topics.add_partitions("a", 3)
    assert len(pair.keeping.call(request, 9).topics[0].partitions) == 3


def test_the_epoch_of_a_damaged_log_is_right_once_it_is_open() -> None:
    core = make_core()
    client = CoreClient(core)
    topic = core.topics.create("a", 1)
    topic.epochs[0] = -1
    request = messages.MetadataRequest([messages.MetadataRequest.Topic(name="a")])
    assert client.call(request, 9).topics[0].partitions[0].leader_epoch == -1
    core.topics.partition("a", 0)
    assert client.call(request, 9).topics[0].partitions[0].leader_epoch == 0


def test_kept_responses_have_a_bound() -> None:
    core = make_core()
    client = CoreClient(core)
    client.call(messages.FindCoordinatorRequest("g"), 3)
    with mock.patch.object(kept_responses, "_MOST_BYTES", 10_000):
        for number in range(100):
            client.call(messages.FindCoordinatorRequest(f"group-{number}"), 3)
        assert 1 <= len(kept(core, FIND_COORDINATOR)) < 50
        with mock.patch.object(kept_responses, "_LONGEST_BYTES", 10):
            before = len(kept(core, FIND_COORDINATOR))
            client.call(messages.FindCoordinatorRequest("another"), 3)
            assert len(kept(core, FIND_COORDINATOR)) == before
