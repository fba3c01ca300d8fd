"""Sessions recorded from Apache Kafka 4.3.1: the same frames get the same answers."""

import base64
import gzip
import json
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.protocol import messages
from tests.conftest import DATA
from tests.drivers.core import API_VERSIONS_KEY, CoreClient, make_core
from tests.protocol.test_vectors import as_json

ORDERS = base64.urlsafe_b64decode("2vLSgg83TfujAxqy5U8ZTA==")
"""The id that the topic had there."""

DIFFERENT = {"throttleTimeMs", "clusterId", "port"}
NOT_SERVED = {"ConsumerGroupDescribe"}
TRANSACTION, SHARE = 1, 2
"""Kinds of coordinators that are not served."""


def exchanges(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each request of a session with its answer; None where Kafka closed the connection."""
    with gzip.open(DATA / "captures" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    answers = {(row["conn"], row["correlationId"]): row for row in rows if row["dir"] == "response"}
    for row in rows:
        if row["dir"] == "request":
            yield row, answers.get((row["conn"], row["correlationId"]))


def core_like_theirs(monkeypatch: pytest.MonkeyPatch) -> BrokerCore:
    """A broker with the topic and the group that were there when the sessions began."""
    core = make_core(profile="kafka", auto_create_topics_enable="false")
    with monkeypatch.context() as patch:
        patch.setattr(core.directory, "_new_id", lambda: ORDERS)
        core.topics.create("orders", 4)
    topic_admin.create_topic(core.broker, OFFSETS_TOPIC, 4, {})
    CoreClient(core).commit("setup", {("orders", 0): 1})
    return core


def ask(core: BrokerCore, request: dict[str, Any]) -> bytes:
    """Send one recorded frame on a new connection; return the answer's frame, empty when there is none."""
    client = CoreClient(core)
    frame = bytes.fromhex(request["hex"])
    client.send_bytes(struct.pack(">i", len(frame)) + frame)
    client.turn()
    return b"".join(client.connection.output)[4:]


def read(frame: bytes, request: dict[str, Any], version: int) -> dict[str, Any]:
    cls = messages.find(f"{request['apiName']}Response")
    flexible = version in cls.SCHEMA.flexible
    tagged = flexible and request["apiKey"] != API_VERSIONS_KEY
    start = messages.decode(messages.ResponseHeader, frame, 1 if tagged else 0)[1]
    value, end = messages.decode(cls, frame, version, start)
    assert end == len(frame)
    return as_json(value, cls.SCHEMA.struct, version, flexible)


def comparable(printed: Any) -> Any:
    """Without what must differ, lists in one order: Kafka's own order of groups and topics is that of hash maps."""
    if isinstance(printed, dict):
        return {name: comparable(value) for name, value in printed.items() if name not in DIFFERENT}
    if isinstance(printed, list):
        return sorted(
            (comparable(item) for item in printed), key=lambda item: json.dumps(item, sort_keys=True)
        )
    return printed


@pytest.mark.parametrize(("session", "compared"), [("raw-offsets", 202), ("raw-versions", 46)])
def test_the_same_frames_get_the_same_answers(
    session: str, compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = core_like_theirs(monkeypatch)
    count = 0
    for request, answer in exchanges(session):
        name = request.get("apiName")
        if name in NOT_SERVED:
            continue
        if name == "FindCoordinator" and request["json"].get("keyType") == TRANSACTION:
            continue
        if name == "FindCoordinator" and (request["apiVersion"], request["json"].get("keyType")) == (
            6,
            SHARE,
        ):
            continue
        frame = ask(core, request)
        if answer is None or name is None:
            assert frame == b"", request
            continue
        version = answer.get("bodyVersion", request["apiVersion"])
        ours, theirs = read(frame, request, version), answer["json"]
        if name == "ApiVersions" and theirs["errorCode"] == 0:  # what is served is another matter
            ours["apiKeys"] = theirs["apiKeys"] = []
            for field in ("supportedFeatures", "finalizedFeatures", "finalizedFeaturesEpoch"):
                theirs.pop(field, None)
                ours.pop(field, None)
        if name == "Metadata" and request["json"].get("topics", 0) is None:  # theirs has other topics beside
            for printed in (ours, theirs):
                printed["topics"] = [topic for topic in printed["topics"] if topic["name"] == "orders"]
        assert comparable(ours) == comparable(theirs), (name, request["apiVersion"], request["json"])
        count += 1
    assert count == compared


def test_the_recorded_id_is_that_of_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_like_theirs(monkeypatch)
    assert core.topics.id_and_partition_count("orders")[0] == ORDERS
    assert core.topics.id_and_partition_count(OFFSETS_TOPIC)[0] not in (ORDERS, bytes(16))
    assert uuid.UUID(bytes=core.topics.id_and_partition_count(OFFSETS_TOPIC)[0]).version == 4
