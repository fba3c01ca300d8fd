"""Deterministic tests of the protocol without a Kafka: answers by script, in order, delayed, and of older versions.

Done for the client's own tests by a transport in memory; here for every client, over a socket.
Asked in https://github.com/dpkp/kafka-python/pull/2861.
"""

import pytest
from kafka import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError

from kafka_offsets import ErrorCode


def test_answers_by_script(kafka_broker):
    faults = kafka_broker.faults
    faults.release("2.8")
    faults.error("FindCoordinator", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE], n=2)
    slow = faults.delay("OffsetFetch", ms=50, n=1)
    kafka_broker.produce("orders", ["tea"])
    kafka_broker.commit("billing", {("orders", 0): 1})
    with KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        with pytest.raises(CoordinatorNotAvailableError):
            admin.list_group_offsets("billing")
        (entry,) = admin.list_group_offsets("billing")["billing"].values()
    assert (entry.offset, slow.hits) == (1, 1)
    assert all(request.version <= 3 for request in kafka_broker.requests.of("FindCoordinator"))
