"""Echo: answers that repeat their request, encoded from the request itself, without a response object.

A response that only confirms success repeats the names in the request and has defaults in all other fields: for a
commit the topics and partitions, each with error code 0. The compiled function reads shared fields from the request.
"""

from kafka_offsets.protocol.codecs.codec import Encoder
from kafka_offsets.protocol.codecs.encoding import Encoding
from kafka_offsets.protocol.codecs.schema import Message, Struct
from kafka_offsets.protocol.mirroring.pairs import pairs, repeated


class _Echoing(Encoding):
    """Writes an encoder of a response that takes the request instead."""

    def __init__(self, request: Message, response: Message, version: int, classes: dict[str, type]) -> None:
        super().__init__(response, version, classes)
        self.repeats: dict[str, set[str]] = {}
        self._mirror(response.struct, request.struct)

    def _mirror(self, struct_: Struct, request: Struct) -> None:
        array_pairs = pairs(struct_, request, self.version)
        names = {field.name for field in repeated(struct_, request, self.version)}
        self.repeats[struct_.name] = names | {pair.answered.name for pair in array_pairs}
        for pair in array_pairs:
            assert pair.asked.struct is not None and pair.answered.struct is not None
            assert pair.asked.name == pair.answered.name, "an echo reads the array by the response's name"
            self._mirror(pair.answered.struct, pair.asked.struct)

    def struct_in_place(self, struct_: Struct, value: str, buffer: str) -> None:
        """Write a struct: shared fields from the request, all others as their defaults."""
        repeats = self.repeats[struct_.name]
        run: list[tuple[str, str]] = []
        for field in self.plain_fields(struct_):
            source = f"{value}.{field.name}" if field.name in repeats else repr(field.default)
            self.field(field, source, buffer, run)
        if self.flexible and not run:
            self.out.add(f"{buffer}.append(0)")
        elif self.flexible:
            run.append(("B", "0"))
        self.flush(run, buffer)


def compile_echo(request: Message, response: Message, version: int, classes: dict[str, type]) -> Encoder:
    """Make the function (request, out) that appends one version of the response that repeats the request.

    classes  value classes of the response, by name of their struct
    """
    encoder: Encoder = _Echoing(request, response, version, classes).compile()
    return encoder
