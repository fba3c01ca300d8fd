"""The public API for tests. Each name is loaded when it is first used and costs nothing before.

Broker          a broker inside the test's process, with seeding, assertions, waiting, snapshots and recorded requests
allow, deny     ACLs for `Broker(acls=)`
CertificateAuthority  certificates for listeners and clients with TLS; needs `cryptography`
KafkaContainer  a broker with the interface of Testcontainers' class, for suites that change one import
Cluster         several brokers, as clients see them: leaders and coordinators that move, nodes that stop
consuming, group_stable …  events for `Broker.wait_for`: `kafka_offsets.testing.server.events`
ManualClock     for `Broker(clock=)`: time passes only when the test advances it
Faults          injected errors, delays and failures: the type of `broker.faults`
strategies      Hypothesis strategies for messages, records and record batches; needs `hypothesis`
machines        a Hypothesis state machine that tests your consumer; needs `hypothesis`
plugin          the pytest fixtures, loaded automatically
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_offsets.testing.acls import allow, deny
    from kafka_offsets.testing.broker import Broker, Snapshot
    from kafka_offsets.testing.broker_cluster import Cluster
    from kafka_offsets.testing.certificates import Certificate, CertificateAuthority
    from kafka_offsets.testing.clock import ManualClock
    from kafka_offsets.testing.container import KafkaContainer
    from kafka_offsets.testing.contents.groups import GroupView, MemberView
    from kafka_offsets.testing.contents.seeding import ConsumedRecord
    from kafka_offsets.testing.factory import BrokerFactory
    from kafka_offsets.testing.faults.control import Faults
    from kafka_offsets.testing.faults.fault import Fault
    from kafka_offsets.testing.server.events import (
        Event,
        caught_up,
        committed,
        consuming,
        group_empty,
        group_stable,
        member_joined,
        record_produced,
        topic_created,
    )
    from kafka_offsets.testing.server.recording import RecordedRequest, Requests

_HOMES = {
    "acls": ("allow", "deny"),
    "broker": ("Broker", "Snapshot"),
    "certificates": ("Certificate", "CertificateAuthority"),
    "clock": ("ManualClock",),
    "container": ("KafkaContainer",),
    "broker_cluster": ("Cluster",),
    "factory": ("BrokerFactory",),
    "faults.fault": ("Fault",),
    "faults.control": ("Faults",),
    "server.events": (
        "Event",
        "caught_up",
        "committed",
        "consuming",
        "group_empty",
        "group_stable",
        "member_joined",
        "record_produced",
        "topic_created",
    ),
    "contents.groups": ("GroupView", "MemberView"),
    "server.recording": ("RecordedRequest", "Requests"),
    "contents.seeding": ("ConsumedRecord",),
}

__all__ = [
    "Broker",
    "BrokerFactory",
    "Certificate",
    "CertificateAuthority",
    "Cluster",
    "ConsumedRecord",
    "Event",
    "Fault",
    "Faults",
    "GroupView",
    "KafkaContainer",
    "ManualClock",
    "MemberView",
    "RecordedRequest",
    "Requests",
    "Snapshot",
    "allow",
    "caught_up",
    "committed",
    "consuming",
    "deny",
    "group_empty",
    "group_stable",
    "member_joined",
    "record_produced",
    "topic_created",
]


def __getattr__(name: str) -> Any:
    """Load a public name."""
    home = next((module for module, held in _HOMES.items() if name in held), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
