"""Options of the data source: parsing and checks. Errors name the option."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_offsets.client.connection import parse_addresses
from kafka_offsets.client.security import PREFIXES
from kafka_offsets.client.settings import ConnectionSettings, secured_settings
from kafka_offsets.errors import ConfigError
from kafka_offsets.spark.reader import schema
from kafka_offsets.spark.reader.query import ALL, LATEST, Query

NAMES = (
    "path",
    "bootstrap.servers",
    "mode",
    "types",
    "columns",
    "pipeline",
    "isolation",
    "startingOffsets",
    "endingOffsets",
    "verifyCrc",
    "splitBytes",
    "splitRecords",
    "maxRecordsPerBatch",
    "storageOptions",
)
"""All options but those of TLS and SASL, `kafka.security.protocol` and so on; Spark takes them in any case."""

_KINDS = (*dict.fromkeys(schema.KINDS.values()), schema.CONTROL, schema.UNKNOWN)
_SPLIT_BYTES = {ALL: 64 << 20, LATEST: 512 << 20}
_SPLIT_RECORDS = 1_000_000


class OptionError(ValueError):
    """An unknown option, or an invalid value."""


@dataclass(frozen=True)
class Options:
    """The options of one table.

    path                   of segments, None if a cluster is read
    bootstrap              HOST:PORT[,HOST:PORT…] of brokers, None if segments are read
    start, stop            offsets by log partition, start inclusive, stop exclusive
    from_end               whether a stream begins at the end of the log
    split_bytes            bytes of segments for one reader
    split_records          number of offsets of a cluster's log for one reader
    max_records_per_batch  of a stream; None: no limit
    storage_options        for fsspec
    names                  of the columns of the result, which may differ in case from the schema's
    security               Kafka's client properties of TLS and SASL, passwords included
    """

    query: Query
    names: tuple[str, ...]
    path: str | None
    bootstrap: str | None
    start: Mapping[int, int]
    stop: Mapping[int, int]
    from_end: bool = False
    split_bytes: int = _SPLIT_BYTES[ALL]
    split_records: int = _SPLIT_RECORDS
    max_records_per_batch: int | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    security: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def connections(self) -> ConnectionSettings:
        """How brokers are reached; read from `security` in each process, because a TLS context cannot be pickled."""
        assert self.bootstrap is not None
        return secured_settings(self.bootstrap, self.security)

    def check_batch(self) -> None:
        """Raise OptionError for an option that only a stream can have."""
        if self.from_end or self.max_records_per_batch is not None:
            name = "startingOffsets=latest" if self.from_end else "maxRecordsPerBatch"
            raise OptionError(f"{name} is for streams, not for a batch query")


class Field(NamedTuple):
    """A field of a schema of Spark; `type` is the text of `simpleString`."""

    name: str
    type: str
    is_nullable: bool


def parse(given: Mapping[str, str], fields: Sequence[Field] | None = None) -> Options:
    """Parse the options given to Spark. Raises OptionError.

    fields  the schema that Spark expects of the reader: the user's, or the one that follows from the options, which
            None and an empty one are too
    """
    option_names = {name.lower(): name for name in NAMES}
    values: dict[str, str] = {}
    security: dict[str, str] = {}
    for name, value in given.items():
        key = name.lower().removeprefix("kafka.")
        if key.startswith(PREFIXES):
            security[key] = value
        elif key in option_names:
            values[option_names[key]] = value
        else:
            raise OptionError(f"consumer_offsets has no option {name!r}; it has {', '.join(NAMES)}")
    if ("path" in values) == ("bootstrap.servers" in values):
        raise OptionError(
            "give either the option 'path', of a log directory, or 'bootstrap.servers', of a cluster"
        )
    needs = _needs(values)
    mode = _mode(values, needs)
    start, from_end = _offsets(values, "startingOffsets", "earliest", "latest")
    stop, _ = _offsets(values, "endingOffsets", "latest")
    columns = _of_schema(values, fields, _columns(values, mode, needs))
    return Options(
        names=tuple(schema_field.name for schema_field in fields or columns),
        query=Query(
            columns=columns,
            mode=mode,
            kinds=_kinds(values, mode, needs),
            committed=_is_committed(values, needs),
            verify_crc=_one_of(values, "verifyCrc", ("false", "true")) == "true",
        ),
        path=values.get("path"),
        bootstrap=_bootstrap(values, security),
        start=start,
        stop=stop,
        from_end=from_end,
        split_bytes=_positive(values, "splitBytes") or _SPLIT_BYTES[mode],
        split_records=_positive(values, "splitRecords") or _SPLIT_RECORDS,
        max_records_per_batch=_positive(values, "maxRecordsPerBatch"),
        storage_options=_storage_options(values),
        security=security,
    )


def _one_of(values: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = values.get(name, allowed[0]).lower()
    if value not in allowed:
        raise _wrong(values, name, " or ".join(map(repr, allowed)))
    return value


def _wrong(values: Mapping[str, str], name: str, expected: str) -> OptionError:
    return OptionError(f"option {name!r} is {values[name]!r}, not {expected}")


def _words(values: Mapping[str, str], name: str) -> list[str]:
    words = [word.strip() for word in values[name].split(",")]
    if not all(words):
        raise _wrong(values, name, "names with commas between them")
    return words


def _needs(values: Mapping[str, str]) -> list[schema.Need]:
    """Return what the named pipelines need; empty if none is named."""
    words = _words(values, "pipeline") if "pipeline" in values else []
    for word in words:
        if word not in schema.NEEDS:
            raise OptionError(f"option 'pipeline': no {word!r}; there are {', '.join(schema.NEEDS)}")
    return [schema.NEEDS[word] for word in words]


def _mode(values: Mapping[str, str], needs: list[schema.Need]) -> str:
    """Return the mode, LATEST by default if all named pipelines can have it."""
    can_reduce = bool(needs) and all(need.is_reduced for need in needs)
    if "mode" not in values and can_reduce:
        return LATEST
    mode = _one_of(values, "mode", (ALL, LATEST))
    if mode == LATEST and needs and not can_reduce:
        raise OptionError(f"option 'pipeline' is {values['pipeline']!r}, which needs mode 'all'")
    return mode


def _is_committed(values: Mapping[str, str], needs: list[schema.Need]) -> bool:
    """Pipelines exclude the records of open and aborted transactions themselves, by the column `outcome`."""
    if needs and "isolation" not in values:
        return False
    return _one_of(values, "isolation", ("committed", "uncommitted")) == "committed"


def _columns(values: Mapping[str, str], mode: str, needs: list[schema.Need]) -> tuple[schema.Column, ...]:
    if "columns" not in values:
        if needs:
            named = {name for need in needs for name in need.columns}
            return tuple(column for column in schema.COLUMNS if column.name in named)
        return schema.select(schema.DEFAULT_COLUMNS if mode == ALL else schema.LATEST_COLUMNS)
    try:
        return schema.select(_words(values, "columns"))
    except OptionError:
        raise
    except ValueError as error:
        raise OptionError(f"option 'columns': {error}") from error


def _of_schema(
    values: Mapping[str, str], fields: Sequence[Field] | None, chosen: tuple[schema.Column, ...]
) -> tuple[schema.Column, ...]:
    """Return the columns of the schema that Spark expects; `chosen` are those that follow from the options."""
    if not fields:
        return chosen
    names = [schema_field.name for schema_field in fields]
    if [name.lower() for name in names] != [column.name for column in chosen]:
        for option in ("columns", "pipeline"):
            if option in values:
                raise OptionError(
                    f"option {option!r} is {values[option]!r}; the schema has {', '.join(names)}"
                )
    try:
        columns = schema.select(names)
    except ValueError as error:
        raise OptionError(f"the schema: {error}") from error
    for name, spark_type, is_nullable in fields:
        expected_type = schema.spark_type(name.lower())
        if spark_type != expected_type:
            raise OptionError(f"the schema: column {name!r} has the type {expected_type}, not {spark_type}")
        if not is_nullable:
            raise OptionError(f"the schema: column {name!r} is NOT NULL; rows with an error have nulls")
    return columns


def _kinds(values: Mapping[str, str], mode: str, needs: list[schema.Need]) -> frozenset[str] | None:
    if "types" not in values:
        if needs:
            needed: set[str] = set()
            for need in needs:
                if need.kinds is None:
                    return None
                needed.update(need.kinds)
            return frozenset(needed)
        return None if mode == ALL else frozenset((schema.OFFSET,))
    chosen: set[str] = set()
    for word in _words(values, "types"):
        kinds = schema.FAMILIES.get(word, (word,))
        if kinds[0] not in _KINDS:
            raise OptionError(
                f"option 'types': no {word!r}; there are {', '.join((*schema.FAMILIES, *_KINDS))}"
            )
        chosen.update(kinds)
    if mode == LATEST and chosen != {schema.OFFSET}:
        raise OptionError(f"option 'types' is {values['types']!r}; mode 'latest' is of type 'offset' alone")
    return frozenset(chosen)


def _offsets(values: Mapping[str, str], name: str, *allowed: str) -> tuple[dict[int, int], bool]:
    """Return offsets by log partition, and whether the value is the second allowed word."""
    text = values.get(name, allowed[0])
    expected = (
        f"{' or '.join(map(repr, allowed))}, or JSON such as " + '{"0": 1234} of offsets by log partition'
    )
    if text.lower() in allowed:
        return {}, text.lower() != allowed[0]
    try:
        read = json.loads(text)
        offsets = {int(partition): offset for partition, offset in read.items()}
    except (ValueError, AttributeError) as error:
        raise _wrong(values, name, expected) from error
    if not all(
        type(offset) is int and offset >= 0 and partition >= 0 for partition, offset in offsets.items()
    ):
        raise _wrong(values, name, expected)
    return offsets, False


def _positive(values: Mapping[str, str], name: str) -> int | None:
    if name not in values:
        return None
    text = values[name]
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise _wrong(values, name, "a number above 0")
    return int(text)


def _bootstrap(values: Mapping[str, str], security: Mapping[str, str]) -> str | None:
    """Return the brokers. The settings of TLS and SASL are checked here, before tasks start."""
    bootstrap = values.get("bootstrap.servers")
    if bootstrap is None:
        if security:
            raise OptionError(f"option 'kafka.{next(iter(security))}' is for a cluster, not for segments")
        return None
    try:
        parse_addresses(bootstrap)
    except ValueError as error:
        raise OptionError(f"option 'bootstrap.servers': {error}") from error
    try:
        secured_settings(bootstrap, security)
    except ConfigError as error:
        raise OptionError(f"options 'kafka.*': {error}") from error
    return bootstrap


def _storage_options(values: Mapping[str, str]) -> dict[str, Any]:
    if "storageOptions" not in values:
        return {}
    try:
        read: Callable[..., Any] | Any = json.loads(values["storageOptions"])
    except ValueError as error:
        raise _wrong(values, "storageOptions", "a JSON object for fsspec") from error
    if not isinstance(read, dict):
        raise _wrong(values, "storageOptions", "a JSON object for fsspec")
    return read
