"""Source: KIP-1043, administration of groups of all kinds.

Not served, and so without a test: share and streams groups, and the tools around them; the listing of a group whose
type a client does not know, which is for clients.
"""

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.claims.claimed import CoreClient, broker, describe, stable


@pytest.mark.parametrize(("version", "error"), [(5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_group_that_does_not_exist_is_reported_by_an_error(version: int, error: int) -> None:
    """Public interfaces, DescribeGroups version 6: GROUP_ID_NOT_FOUND where it was a group in the state Dead."""
    described = describe(CoreClient(broker()), "missing", version)
    assert (described.error_code, described.group_state) == (error, "Dead")
    if version == 6:
        assert described.error_message == "Group missing not found."


def test_a_group_that_is_there_has_no_message() -> None:
    """Public interfaces: error_message is null where there is no error."""
    core = broker()
    stable(core, [b""])
    described = describe(CoreClient(core), "g")
    assert (described.error_code, described.error_message, described.group_state) == (0, None, "Stable")


def test_groups_of_all_types_are_listed_with_type_protocol_and_state() -> None:
    """Public interfaces, listing: a simple group has no protocol, one of consumers has theirs; both may be classic."""
    core = broker()
    stable(core, [b""])
    request = messages.ConsumerGroupHeartbeatRequest
    joined = request("new", "m", 0, None, None, 1000, ["t"], topic_partitions=[])
    assert CoreClient(core).call(joined, 1).error_code == 0
    CoreClient(core).commit("simple", {("t", 0): 1})
    listed = CoreClient(core).call(messages.ListGroupsRequest(), 5).groups
    assert {(g.group_id, g.group_type, g.protocol_type, g.group_state) for g in listed} == {
        ("g", "classic", "consumer", "Stable"),
        ("new", "consumer", "consumer", "Stable"),
        ("simple", "classic", "", "Empty"),
    }


def test_filters_by_type_and_state_go_together() -> None:
    """Public interfaces, listing: both, in any case; what no broker knows finds nothing and is no error."""
    core = broker()
    stable(core, [b""])
    CoreClient(core).commit("simple", {("t", 0): 1})
    client = CoreClient(core)
    for types, states, names in (
        (["CLASSIC"], ["stable"], ["g"]),
        (["classic"], ["empty", "stable"], ["g", "simple"]),
        (["share"], [], []),
        ([], ["no such state"], []),
    ):
        answer = client.call(messages.ListGroupsRequest(states, types), 5)
        assert (answer.error_code, sorted(g.group_id for g in answer.groups)) == (0, names)
