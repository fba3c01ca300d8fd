"""Broker peers: which connections, and which requests, are those of other brokers of the cluster?"""

from __future__ import annotations

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.wire.channel import is_of_broker
from kafka_offsets.coordinator.state.result import RequestContext


def is_between_brokers(core: Context, context: RequestContext) -> bool:
    """Whether a request arrived at the listener between brokers, or from another node of this process."""
    listener: str = context.connection.listener
    return core.replicas is not None and listener == (
        "" if core.inter_broker is None else core.inter_broker.endpoint.name
    )


def is_trusted(core: Context, context: RequestContext) -> bool:
    """Whether the sender of a request at that listener may act as a broker; another node of this process may."""
    host = context.client_host.removeprefix("/")
    return core.inter_broker is None or core.inter_broker.trusts(context.principal, host, core.authorizer)


def is_broker(core: Context, context: RequestContext) -> bool:
    """Whether another broker of the cluster has sent a request: by its listener, its client id, and its rights.

    No client of a broker that is alone is one, whatever its name is, nor at any other listener of a cluster.
    """
    return (
        is_of_broker(context.client_id, core.cluster_id)
        and is_between_brokers(core, context)
        and is_trusted(core, context)
    )
