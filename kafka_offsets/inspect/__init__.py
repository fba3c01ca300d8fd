"""Bytes explained field by field, with their positions: segments, index files, stored records, frames.

What stands where is declared in construct: messages from their schemas, record batches and index files by hand. The
declarations share no code with the codecs that serve clients, so that each can judge the other. Slow, and meant to be;
only the command `kafka-offsets inspect` imports it.

    declarations  what the bytes are
    lines         what a line of an explanation is
    batches       segments, index files, records
    message       messages in any version, records of the offsets topic
    frame         requests and responses with their headers
    capture       wire captures as a timeline
    json_lines    the lines for machines
    guess         the API of a frame that does not name it
"""

from kafka_offsets.inspect.declarations import InspectError

__all__ = ["InspectError"]
