"""APIs: how does each API respond? One file for a family, with Kafka's names.

A handler receives the `Context` of the broker, the request, its `RequestContext` and the time. It returns the response,
a message or the bytes of one, or LATER: then `broker.responses` gets the response, by the context. The gate, APIs of
a cluster and faults are handlers of the same kind, around that of an API. broker/core/api_table.py lists the APIs.
"""
