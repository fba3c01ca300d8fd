"""Stored records of the transaction and share coordinators, and every stored record that Kafka's encoder wrote."""

import base64
from pathlib import Path

import pytest

from kafka_offsets.inspect.batches import explain_batches
from kafka_offsets.inspect.message import STORED, explain_record
from tests.conftest import DATA
from tests.inspect.explained import MESSAGES, VECTORS, assert_tiled, give, inspect, json_lines

SEGMENTS = sorted(
    path.relative_to(DATA / "logs").as_posix()
    for topic in ("__transaction_state", "__share_group_state")
    for path in DATA.glob(f"logs/*/{topic}-*/*.log")
)
OTHER_TOPICS = {
    "TransactionLog": "__transaction_state",
    "ShareSnapshot": "__share_group_state",
    "ShareUpdate": "__share_group_state",
}
STORED_NAMES = [
    name.removesuffix("Key") for name in MESSAGES if f"{name.removesuffix('Key')}Value" in MESSAGES
]


@pytest.mark.parametrize("segment", SEGMENTS)
def test_segments_of_the_other_coordinators_are_explained_by_their_folder(
    segment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = DATA / "logs" / segment
    folder = path.parent.name
    data = path.read_bytes()
    lines = list(explain_batches(data, explainer=STORED[folder.rpartition("-")[0]]))
    assert_tiled(lines, 0, len(data))
    assert not [line for line in lines if line.damage or line.name == "(remaining bytes)"]
    expected = [
        record["typeName"].title().replace("_", "")
        for batch in json_lines(path.parent.with_name(f"{folder}.records.jsonl.gz"))
        for record in batch["records"]
        if "typeName" in record
    ]
    assert [line.value.partition("(")[2][:-1] for line in lines if line.name == "type"] == expected
    code, out, _ = inspect(capsys, path)
    assert (code, out) == (0, "".join(f"{line}\n" for line in lines))


def test_a_segment_elsewhere_is_of_the_topic_that_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes((DATA / "logs" / SEGMENTS[0]).read_bytes())
    topic = Path(SEGMENTS[0]).parent.name.rpartition("-")[0]
    assert "(ShareSnapshot)" not in inspect(capsys, path)[1]
    assert inspect(capsys, "--topic", topic, path)[1] == inspect(capsys, DATA / "logs" / SEGMENTS[0])[1]


@pytest.mark.parametrize("name", STORED_NAMES)
def test_every_stored_record_of_kafkas_encoder_is_explained_with_its_type(name: str) -> None:
    stored = STORED[OTHER_TOPICS.get(name, "__consumer_offsets")]
    keys, values = (json_lines(VECTORS / f"{name}{part}.jsonl.gz") for part in ("Key", "Value"))
    key = bytes.fromhex(keys[0]["hex"])
    for case in values:
        value = bytes.fromhex(case["hex"])
        lines = explain_record(key, value, stored)
        below = [line for line in lines if line.depth]
        split = next(number for number, line in enumerate(below) if line.name == "version")
        assert below[0].value.endswith(f"({name})")
        assert_tiled(below[split:], 0, len(value))
        assert not [line for line in lines if line.damage or line.name == "(remaining bytes)"]


def test_a_record_of_a_named_topic_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "0000000174")
    code, out, _ = inspect(capsys, "--record", "--topic", "__transaction_state", "-")
    assert code == 0
    assert "0 (TransactionLog)" in out and "'t'" in out
    give(monkeypatch, "0001000167" + base64.b16encode(bytes(20)).decode())
    code, out, _ = inspect(capsys, "--record", "--topic", "__share_group_state", "-")
    assert (code, "1 (ShareUpdate)" in out) == (0, True)
