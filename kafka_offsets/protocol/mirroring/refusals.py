"""Refusals: the response to a request that was not executed, made from the request and an error code.

Kafka writes one method for each API (`getErrorResponse`). Nearly all follow one rule, which is here: the response names
the same items as the request, and the error is at the highest level at which the version has a field for it.
"""

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from kafka_offsets.protocol.mirroring.pairs import (
    ERRORS,
    Pair,
    carries_errors,
    has_error,
    key_of,
    pairs,
    repeated,
)

R = TypeVar("R")
"""The response, which follows from the request's class; no type says so, so the caller's expectation is taken."""

_UNKNOWN = frozenset({"base_offset", "committed_offset", "low_watermark"})
"""Fields that are -1 in a refusal, though the default of Kafka's schema is 0."""

_MESSAGE = "error_message"
"""Null in a refusal, though its default is empty in most schemas."""


class ErrorLevel(Enum):
    """The position of the error in a response.

    FIRST  at the highest level at which the version has a field for it, and not below
    EACH   at each partition or other item that the request names, and not above them
    BOTH   above and at each item
    """

    FIRST = "first"
    EACH = "each"
    BOTH = "both"


def refuse(request: Any, error: ErrorCode, version: int) -> R:  # type: ignore[type-var]
    """Return the response of a version that refuses a request, with the error at the highest level that has a field."""
    return _refusal(request, error, version, ErrorLevel.FIRST)


def refuse_each(request: Any, error: ErrorCode, version: int) -> R:  # type: ignore[type-var]
    """Return the response of a version with the error at each item that the request names, and not above them."""
    return _refusal(request, error, version, ErrorLevel.EACH)


def refuse_throughout(request: Any, error: ErrorCode, version: int) -> R:  # type: ignore[type-var]
    """Return the response of a version with the error above and at each item that the request names."""
    return _refusal(request, error, version, ErrorLevel.BOTH)


def _refusal(request: Any, error: ErrorCode, version: int, level: ErrorLevel) -> R:  # type: ignore[type-var]
    response: R = _compiled(request.SCHEMA.name, version, level)(request, error)
    return response


@cache
def _compiled(request: str, version: int, level: ErrorLevel) -> Callable[[Any, ErrorCode], Any]:
    """Make the function (request, error) -> response, on the first refusal of a version."""
    name = request.removesuffix("Request") + "Response"
    response = messages.find(name)
    text = _RefusalWriter(version, level).message(
        response.SCHEMA.struct, messages.find(request).SCHEMA.struct
    )
    made: Callable[[Any, ErrorCode], Any] = eval(  # noqa: S307 - our own text, made from schemas
        compile(f"lambda m, error: {text}", f"<refusal of {name} v{version}>", "eval"), dict(response.CLASSES)
    )
    return made


class _RefusalWriter:
    """Writes the expression that makes a refusal."""

    def __init__(self, version: int, place: ErrorLevel) -> None:
        self.version, self.place = version, place

    def message(self, response: Struct, request: Struct) -> str:
        """Write the response; beside an error of the whole nothing is repeated but what it is made of."""
        return self._struct(response, request, "m", [])

    def _struct(self, struct: Struct, request: Struct, value: str, same: list[Field]) -> str:
        """Write a struct that answers the struct `request`, which is `value`; `same` are the repeated fields."""
        array_pairs = pairs(struct, request, self.version)
        if self.place is ErrorLevel.FIRST and has_error(struct, self.version):
            array_pairs = [pair for pair in array_pairs if not _carries(pair, self.version)]
        is_above = any(_carries(pair, self.version) for pair in array_pairs)
        names = {field.name: f"{value}.{field.name}" for field in same}
        names |= self._plain(struct, is_refused=not (is_above and self.place is ErrorLevel.EACH))
        for pair in array_pairs:
            names[pair.answered.name] = self._array(pair, value)
        return self._call(struct, names)

    def _plain(self, struct: Struct, *, is_refused: bool) -> dict[str, str]:
        """Return what of a struct a refusal says of itself."""
        names = {}
        for field in struct.fields:
            if self.version not in field.versions:
                continue
            if field.name in ERRORS and is_refused:
                names[field.name] = "error"
            elif field.name == _MESSAGE:
                names[field.name] = "None"
            elif field.name in _UNKNOWN:
                names[field.name] = "-1"
        return names

    def _array(self, pair: Pair, value: str) -> str:
        element_name = f"{value}_"
        answered = pair.answered.struct
        assert answered is not None
        if pair.asked.struct is not None:
            same = repeated(answered, pair.asked.struct, self.version)
            element = self._struct(answered, pair.asked.struct, element_name, same)
        else:
            key = key_of(answered, pair.asked, self.version)
            element = self._call(answered, {key.name: element_name} | self._plain(answered, is_refused=True))
        return f"[{element} for {element_name} in {value}.{pair.asked.name} or ()]"

    def _call(self, struct: Struct, names: dict[str, str]) -> str:
        return f"{struct.name}({', '.join(f'{name}={place}' for name, place in names.items())})"


def _carries(pair: Pair, version: int) -> bool:
    answered: Field = pair.answered
    return answered.struct is not None and carries_errors(answered.struct, version)
