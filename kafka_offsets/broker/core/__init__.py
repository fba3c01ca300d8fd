"""Core: the broker without sockets. The table of APIs, the dispatcher, and the turn.

The dispatcher (requests.py) decides the frames that have arrived in a turn, with these limits: while a request of a
connection is unanswered, only further Produce or OffsetCommit requests follow one of the same API, up to 100 requests
or 4 MiB; while 1 MiB of responses is unsent or the client does not read, none is decided. The other frames wait until
responses are sent. A long request takes only its first step in this turn (broker/context/incremental.py).
An API may have a shortcut, which serves requests that need not be decoded: commits and Produce of a known
shape (api/commit_shapes.py, api/produce_shapes.py), and responses that are kept (api/kept_responses.py). An API that is
wrapped, by authorization or by a fault, has none.
What a request names, and the response when it fails, follow from the schemas of both (protocol/mirroring).
"""
