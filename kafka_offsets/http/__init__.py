"""HTTP: how does a test in any language control a broker?

`kafka-offsets serve --http 8080` serves the methods of `kafka_offsets.testing` as JSON, each under its Python name.

values      Python values, their annotations, and what both are in JSON
operations  the table of what can be requested, and how to call it
control     the running brokers and their snapshots, and what a request needs beside the methods of a broker
openapi     the description of the table for machines
app         requests and answers: routes, errors, limits, who may call
metrics     the metrics of brokers and of their groups, for Prometheus
server      the socket, and the process of `serve --http`

It needs starlette and uvicorn, which only `app` and `server` import.
"""
