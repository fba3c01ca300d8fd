"""A diagnosis that is gathered in parts, between which clients go on."""

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.protocol import messages
from kafka_offsets.testing.server.facts import Gathering
from tests.drivers.core import CoreClient, make_core
from tests.storage.batches import batch


def test_a_group_is_told_with_its_logs_of_the_same_moment() -> None:
    """A log that a group of a later part reads too was that of all: records were deleted that a group had not read."""
    core = make_core()
    topic_admin.create_topic(core.broker, "t", 1, {})
    client, made = CoreClient(core), messages.ProduceRequest
    data = made.PartitionProduceData(0, bytes(batch([b"a", b"b"])))
    client.call(made(None, -1, 1000, [made.TopicProduceData("t", partition_data=[data])]), 7)
    names = [f"g{number:02}" for number in range(11)]
    for name in names:
        client.commit(name, {("t", 0): 0})
    gathering, is_left = Gathering(), True
    while is_left:
        is_left = gathering.step(core)
        if len(gathering.facts().groups) in range(1, len(names)):
            for name in names:
                client.commit(name, {("t", 0): 2})
            delete = messages.DeleteRecordsRequest
            topic = delete.DeleteRecordsTopic("t", [delete.DeleteRecordsPartition(0, 2)])
            client.call(delete([topic], timeout_ms=1000), 1)
    facts = gathering.facts()
    assert [each.group_id for each in facts.groups] == names
    assert [log.start for _, _, log in facts.offsets_of(facts.groups[-1])] == [2]
    assert not diagnose(facts, core.clock.now().wall_ms)
