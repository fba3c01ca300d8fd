"""Bytes explained field by field, with their positions: segments, index files, stored records, frames.

The layouts are declared in construct: messages from their schemas, record batches and index files by hand. The
declarations share no code with the codecs that serve clients, so that each can verify the other. They are slow on
purpose; only the command `kafka-offsets inspect` imports this package.

    declarations  the layouts of the bytes
    lines         the lines of an explanation, as text and as JSON
    batches       segments, index files, records
    message       messages in any version, records of the offsets topic
    frame         requests and responses with their headers
    capture       wire captures as a timeline
    guess         the API of a response in hex
"""

from kafka_offsets.inspect.declarations import InspectError

__all__ = ["InspectError"]
