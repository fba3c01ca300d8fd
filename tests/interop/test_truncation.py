"""Java's consumer detects a log that an unclean election has truncated (KIP-320)."""

from collections.abc import Iterator

import pytest

from kafka_offsets.testing import Cluster
from tests.drivers.truncation import lose_it, produce_what_will_be_lost, unclean_cluster
from tests.interop.test_java import JavaError, Shell

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with unclean_cluster() as running:
        yield running


@pytest.fixture
def java(java_client: list[str], cluster: Cluster) -> Iterator[Shell]:
    shell = Shell(java_client, cluster.bootstrap_servers)
    yield shell
    shell.close()


def read_what_will_be_lost(java: Shell, cluster: Cluster, reset: str) -> None:
    """Read three records by a consumer that remains; only the first one is replicated."""
    java("follow", "orders", 0, reset)
    assert java("next", 1) == ["common"]
    produce_what_will_be_lost(cluster)
    assert java("next", 2) == ["lost", "lost-too"]


def test_a_java_consumer_continues_where_the_log_of_the_new_leader_differs(
    java: Shell, cluster: Cluster
) -> None:
    # Without epochs it would continue at offset 3 and never see "new" and "newer".
    read_what_will_be_lost(java, cluster, "earliest")
    lose_it(cluster)
    assert java("next", 3) == ["new", "newer", "newest"]


def test_a_java_consumer_without_a_reset_policy_gets_log_truncation_exception(
    java: Shell, cluster: Cluster
) -> None:
    read_what_will_be_lost(java, cluster, "none")
    lose_it(cluster)
    with pytest.raises(JavaError, match=r"LogTruncationException .*divergent.*offset=1"):
        java("next", 3)
