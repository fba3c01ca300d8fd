"""Broker peers: which connections, and which requests, are those of other brokers of the cluster?"""

from __future__ import annotations

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.wire.channel import is_of_broker
from kafka_offsets.coordinator.state.result import RequestContext


def is_between_brokers(broker: Context, context: RequestContext) -> bool:
    """Whether a request arrived at the listener between brokers, or from another node of this process."""
    listener: str = context.connection.listener
    return broker.replicas is not None and listener == (
        "" if broker.access.inter_broker is None else broker.access.inter_broker.endpoint.name
    )


def is_trusted(broker: Context, context: RequestContext) -> bool:
    """Whether the sender of a request at that listener may act as a broker; another node of this process may."""
    host = context.client_host.removeprefix("/")
    return broker.access.inter_broker is None or broker.access.inter_broker.trusts(
        context.principal, host, broker.access.authorizer
    )


def is_broker(broker: Context, context: RequestContext) -> bool:
    """Whether another broker of the cluster has sent a request: by its listener, its client id, and its rights.

    No client of a broker that is alone is one, whatever its name is, nor at any other listener of a cluster.
    """
    return (
        is_of_broker(context.client_id, broker.node.cluster_id)
        and is_between_brokers(broker, context)
        and is_trusted(broker, context)
    )
