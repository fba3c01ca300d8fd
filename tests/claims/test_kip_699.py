"""Source: KIP-699, FindCoordinator for several groups at once.

Not served, and so without a test: how clients fall back to single requests, and what admin clients ask with them.
"""

import pytest

from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Cluster
from tests.claims.claimed import CoreClient, broker

GROUP, TRANSACTION, SHARE = 0, 1, 2


def test_several_groups_are_found_in_one_request() -> None:
    """Public interfaces, version 4: keys in, coordinators out, each under its key."""
    core = broker()
    answer = CoreClient(core).call(
        messages.FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["a", "b", ""]), 4
    )
    assert [c.key for c in answer.coordinators] == ["a", "b", ""]
    assert {(c.error_code, c.node_id, c.host, c.port) for c in answer.coordinators} == {
        (0, core.broker.node.id, core.broker.node.host, core.broker.node.port)
    }


def test_each_coordinator_has_its_own_error() -> None:
    """Public interfaces: errors moved from the top of the response to the coordinators."""
    answer = CoreClient(broker(profile="kafka")).call(
        messages.FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["a", "b"]), 4
    )
    assert answer.error_code == 0
    expected = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    assert [(c.error_code, c.node_id, c.host, c.port) for c in answer.coordinators] == [expected] * 2


def test_groups_of_one_request_may_have_different_coordinators() -> None:
    """Motivation: one request to any broker instead of one a group, whoever coordinates them."""
    with Cluster(brokers=2) as cluster:
        names = [f"g{number}" for number in range(8)]
        request = messages.FindCoordinatorRequest(key_type=GROUP, coordinator_keys=names)
        for node in cluster.nodes:
            with Connection(node.host, node.port, 20) as connection:
                found = connection.call(request, 4).coordinators
            assert [c.key for c in found] == names
            assert {c.key: c.node_id for c in found} == {name: cluster.coordinator(name) for name in names}
            assert {(c.node_id, c.port) for c in found} == {(each.id, each.port) for each in cluster.nodes}


def test_no_keys_find_nothing() -> None:
    """Public interfaces: an empty list is answered by one."""
    request = messages.FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[])
    assert CoreClient(broker()).call(request, 4).coordinators == []


@pytest.mark.parametrize(("version", "key_type"), [(4, 9), (5, SHARE)])
def test_keys_of_no_known_type_are_refused_one_by_one(version: int, key_type: int) -> None:
    """Public interfaces: an error belongs to a key, also when it is the request's."""
    request = messages.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    found = CoreClient(broker()).call(request, version).coordinators
    assert [(c.key, c.error_code, c.node_id) for c in found] == [
        ("a", ErrorCode.INVALID_REQUEST, -1),
        ("b", ErrorCode.INVALID_REQUEST, -1),
    ]


@pytest.mark.parametrize("version", [0, 1, 3])
def test_older_versions_ask_for_one(version: int) -> None:
    """Compatibility: key and answer at the top."""
    core = broker()
    answer = CoreClient(core).call(messages.FindCoordinatorRequest("a", GROUP), version)
    assert (answer.error_code, answer.node_id, answer.port) == (0, core.broker.node.id, core.broker.node.port)


def test_one_request_has_keys_of_one_type() -> None:
    """Public interfaces: the key type is the request's; what is not served is refused for each key."""
    request = messages.FindCoordinatorRequest
    client = CoreClient(broker())
    answer = client.call(request(key_type=TRANSACTION, coordinator_keys=["a", "b"]), 4)
    assert [(c.key, c.error_code) for c in answer.coordinators] == [("a", 0), ("b", 0)]
    answer = client.call(request(key_type=SHARE, coordinator_keys=["a", "b"]), 6)
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [c.error_code for c in answer.coordinators] == [refused] * 2
