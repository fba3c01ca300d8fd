"""APIs: what does each API answer? One file for a family, with Kafka's names.

A handler receives the request, its `RequestContext` and the `Context` of the broker; broker/core/api_table.py has its
row.
"""
