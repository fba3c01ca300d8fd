"""API versions of Kafka releases, for a broker that emulates one of them: the last version of each API.

Each line below lists the releases that raised an API's last version; before its first release the API does not exist.
Source: the `validVersions` of clients/src/main/resources/common/message at the tags of Apache Kafka.
"""

from dataclasses import replace

from kafka_offsets.broker.wire.api import Api

_LAST_VERSIONS = """
Produce                      1.0=5 2.0=6 2.1=7 2.4=8 2.8=9 3.7=10 3.8=11 4.0=12 4.1=13
Fetch                        1.0=6 1.1=7 2.0=8 2.1=10 2.3=11 2.7=12 3.1=13 3.5=15 3.7=16 3.9=17 4.1=18
ListOffsets                  1.0=2 2.0=3 2.1=4 2.2=5 2.8=6 3.0=7 3.5=8 3.9=9 4.0=10 4.2=11
Metadata                     1.0=5 2.0=6 2.1=7 2.3=8 2.4=9 2.8=11 3.1=12 4.0=13
OffsetCommit                 1.0=3 2.0=4 2.1=6 2.3=7 2.4=8 3.7=9 4.2=10
OffsetFetch                  1.0=3 2.0=4 2.1=5 2.4=6 2.5=7 3.0=8 3.7=9 4.2=10
FindCoordinator              1.0=1 2.0=2 2.4=3 3.0=4 3.8=5 3.9=6
JoinGroup                    1.0=2 2.0=3 2.2=4 2.3=5 2.4=6 2.5=7 3.2=9
Heartbeat                    1.0=1 2.0=2 2.3=3 2.4=4
LeaveGroup                   1.0=1 2.0=2 2.4=4 3.2=5
SyncGroup                    1.0=1 2.0=2 2.3=3 2.4=4 2.5=5
DescribeGroups               1.0=1 2.0=2 2.3=3 2.4=5 4.0=6
ListGroups                   1.0=1 2.0=2 2.4=3 2.6=4 3.8=5
SaslHandshake                1.0=1
ApiVersions                  1.0=1 2.0=2 2.4=3 3.9=4
CreateTopics                 1.0=2 2.0=3 2.4=5 2.7=6 2.8=7
DeleteTopics                 1.0=1 2.0=2 2.1=3 2.4=4 2.7=5 2.8=6
DeleteRecords                1.0=0 2.0=1 2.6=2
InitProducerId               1.0=0 2.0=1 2.4=2 2.5=3 2.7=4 3.8=5
OffsetForLeaderEpoch         1.0=0 2.0=1 2.1=2 2.3=3 2.8=4
AddPartitionsToTxn           1.0=0 2.0=1 2.7=2 2.8=3 3.6=4 3.8=5
AddOffsetsToTxn              1.0=0 2.0=1 2.7=2 2.8=3 3.8=4
EndTxn                       1.0=0 2.0=1 2.7=2 2.8=3 3.8=4 4.0=5
WriteTxnMarkers              1.0=0 2.8=1 4.2=2
TxnOffsetCommit              1.0=0 2.0=1 2.1=2 2.5=3 3.8=4 4.0=5
DescribeAcls                 1.0=0 2.0=1 2.5=2 3.3=3
CreateAcls                   1.0=0 2.0=1 2.5=2 3.3=3
DeleteAcls                   1.0=0 2.0=1 2.5=2 3.3=3
DescribeConfigs              1.0=0 1.1=1 2.0=2 2.6=3 2.8=4
AlterConfigs                 1.0=0 2.0=1 2.8=2
AlterReplicaLogDirs          1.0=0 2.0=1 2.8=2
DescribeLogDirs              1.0=0 2.0=1 2.6=2 3.2=3 3.3=4 4.3=5
SaslAuthenticate             1.0=0 2.2=1 2.5=2
CreatePartitions             1.0=0 2.0=1 2.5=2 2.7=3
CreateDelegationToken        1.1=0 2.0=1 2.4=2 3.3=3
RenewDelegationToken         1.1=0 2.0=1 2.5=2
ExpireDelegationToken        1.1=0 2.0=1 2.5=2
DescribeDelegationToken      1.1=0 2.0=1 2.5=2 3.3=3
DeleteGroups                 1.1=0 2.0=1 2.4=2
ElectLeaders                 2.2=0 2.4=2
IncrementalAlterConfigs      2.3=0 2.4=1
AlterPartitionReassignments  2.4=0 4.1=1
ListPartitionReassignments   2.4=0
OffsetDelete                 2.4=0
DescribeClientQuotas         2.6=0 2.8=1
AlterClientQuotas            2.6=0 2.8=1
DescribeUserScramCredentials 2.7=0
AlterUserScramCredentials    2.7=0
DescribeQuorum               4.0=2
DescribeCluster              2.8=0 3.7=1 4.0=2
DescribeProducers            2.8=0
UnregisterBroker             4.0=0
DescribeTransactions         3.0=0
ListTransactions             3.0=0 3.8=1 4.1=2
ConsumerGroupHeartbeat       3.7=0 4.0=1
ConsumerGroupDescribe        3.8=0 4.0=1
ListConfigResources          4.0=0 4.1=1
DescribeTopicPartitions      4.0=0
"""

_FIRST = (1, 0)
_LATEST = (4, 3)
_LAST_MINORS = {1: 1, 2: 8, 3: 9, 4: 3}
"""The last release of each major version."""

_FEATURES_SINCE = (4, 0)
"""Earlier releases finalize none of the features that this broker names."""


def parse_release(release: str) -> tuple[int, int]:
    """Return major and minor number of a release such as 2.8 or 3.9.1. ValueError for an unknown release."""
    parts = release.split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{release!r} is not a release of Kafka such as '2.8'")
    version = int(parts[0]), int(parts[1])
    major, minor = version
    if not _FIRST <= version <= _LATEST or minor > _LAST_MINORS[major]:
        raise ValueError(f"Kafka {release} is not known here, only 1.0 to {_LATEST[0]}.{_LATEST[1]}")
    return version


def has_features(release: tuple[int, int]) -> bool:
    """Whether a release names features like `group.version` (KIP-848)."""
    return release >= _FEATURES_SINCE


def last_version(api: str, release: tuple[int, int]) -> int | None:
    """Return the last version of an API in a release, None if the release does not have the API."""
    return max((version for since, version in _VERSIONS[api] if since <= release), default=None)


def narrowed(api: Api, first: int, last: int | None) -> Api | None:
    """Return an API restricted to the versions from `first` to `last`; None if no version remains."""
    if last is None or last < max(first, api.min_version):
        return None
    return replace(api, versions=(max(first, api.min_version), min(last, api.max_version)))


def _parse(lines: str) -> dict[str, list[tuple[tuple[int, int], int]]]:
    versions = {}
    for line in lines.split("\n"):
        name, *changes = line.split()
        pairs = [change.split("=") for change in changes]
        versions[name] = [(parse_release(since), int(version)) for since, version in pairs]
    return versions


_VERSIONS = _parse(_LAST_VERSIONS.strip())
