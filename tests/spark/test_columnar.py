"""The offsets log in Arrow columns, against the plain codec. No Spark here."""

import pyarrow as pa
import pytest

from kafka_offsets.spark import schema
from tests.conftest import REPOSITORY

RECORD_TYPES = {
    int(path.name.split("_")[1])
    for path in (REPOSITORY / "schemas").glob("record_[0-9]*.schema")
    if "transaction_log" not in path.name and path.name.split("_", 2)[2][:12] != "share_update"
}


def test_every_record_type_has_a_kind() -> None:
    assert set(schema.KINDS) == RECORD_TYPES


def test_columns_come_in_the_order_asked_for() -> None:
    assert schema.arrow_schema(["topic", "log_offset"]) == pa.schema(
        [("topic", pa.string()), ("log_offset", pa.int64())]
    )
    assert schema.ddl(["topic", "record_timestamp"]) == "`topic` STRING, `record_timestamp` TIMESTAMP"


@pytest.mark.parametrize(
    ("names", "words"),
    [(["topics"], "no column 'topics'"), (["topic", "topic"], "named twice"), ([], "no column is named")],
)
def test_a_wrong_choice_of_columns_is_named(names: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        schema.select(names)
