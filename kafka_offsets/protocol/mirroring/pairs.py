"""Pairs of a request and its response: fields of the same name, and arrays that answer arrays, element by element.

A response repeats the names in its request: topics, partitions, groups, resources. Both schemas determine the matching
fields, so no API needs its own code.
"""

from typing import NamedTuple

from kafka_offsets.protocol.codecs.schema import Field, Struct

ERRORS = frozenset({"error_code", "partition_error_code"})
"""Kafka's names of the error field of a struct. Others, such as topic_config_error_code, have another meaning."""

_ERROR_MESSAGE = "error_message"


class Pair(NamedTuple):
    """An array of a request, and the array of the response that answers each of its elements."""

    asked: Field
    answered: Field


def has_error(struct: Struct, version: int) -> bool:
    """Whether a struct has an error code in a version."""
    return any(field.name in ERRORS and version in field.versions for field in struct.fields)


def carries_errors(struct: Struct, version: int) -> bool:
    """Whether a struct or anything in it has an error code in a version."""
    return has_error(struct, version) or any(
        carries_errors(field.struct, version)
        for field in struct.fields
        if field.struct is not None and version in field.versions
    )


def repeated(struct: Struct, request: Struct, version: int) -> list[Field]:
    """Return the plain fields of a response's struct whose values are the request's.

    Excluded are fields whose default is not zero or empty, such as the -1 of an offset: they hold a result, and the
    default means that there is none.
    """
    request_fields = {field.name: field for field in request.fields if version in field.versions}
    return [
        field
        for field in struct.fields
        if version in field.versions
        and not field.array
        and field.struct is None
        and field.name in request_fields
        and not request_fields[field.name].array
        and field.type == request_fields[field.name].type
        and field.default is not None
        and not (any(field.default) if isinstance(field.default, bytes) else field.default)
    ]


def pairs(struct: Struct, request: Struct, version: int) -> list[Pair]:
    """Return the arrays of a response's struct that answer arrays of the request's.

    An array answers the array of its name, or else, if it has errors, the first array. An array without errors answers
    only an array that it repeats completely.
    """
    request_arrays = [field for field in request.fields if field.array and version in field.versions]
    by_name = {field.name: field for field in request_arrays}
    array_pairs = []
    for field in struct.fields:
        if not field.array or field.struct is None or version not in field.versions:
            continue
        if carries_errors(field.struct, version):
            same = by_name.get(field.name) or (request_arrays[0] if request_arrays else None)
        else:
            same = by_name.get(field.name)
            if same is not None and not _repeats_whole(field.struct, same, version):
                same = None
        if same is not None:
            array_pairs.append(Pair(same, field))
    return array_pairs


def key_of(answered: Struct, asked: Field, version: int) -> Field:
    """Return the field in which an element of a response names that of the request, a plain value."""
    return next(
        field
        for field in answered.fields
        if field.type == asked.type
        and not field.array
        and version in field.versions
        and field.name not in (*ERRORS, _ERROR_MESSAGE)
    )


def _repeats_whole(struct: Struct, asked: Field, version: int) -> bool:
    if asked.struct is None:
        return False
    names = {field.name for field in struct.fields if version in field.versions}
    return names <= {field.name for field in repeated(struct, asked.struct, version)}
