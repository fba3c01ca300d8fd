"""The JSON form of images and their changes: what is written is read again, and any bytes give a value or an error."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.metadata.image import (
    Brokers,
    ClusterImage,
    ClusterTopic,
    Delta,
    Placed,
    RegisteredBroker,
    TopicPartition,
)
from kafka_offsets.metadata.json_form import (
    decode_delta,
    decode_image,
    encode_delta,
    encode_image,
    from_json,
    to_json,
)
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.replication.partition_state import PartitionState
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.security.delegation_token import DelegationToken
from kafka_offsets.security.principal import Principal

TEXTS = st.text(max_size=6)  # also lone surrogates: a host or a user may be named by any client
PORTS = st.integers(0, 65535)
LISTENERS = st.dictionaries(TEXTS, st.tuples(TEXTS, PORTS), max_size=2)
IDS = st.integers(0, 2**31 - 1)
NUMBERS = st.integers(0, 2**63 - 1)
SOME_IDS = st.lists(IDS, max_size=3).map(tuple)
STATES = st.builds(
    PartitionState,
    st.lists(IDS, min_size=1, max_size=3).map(tuple),
    SOME_IDS,
    st.integers(-1, 5),
    NUMBERS,
    NUMBERS,
    SOME_IDS,
    SOME_IDS,
    SOME_IDS,
    st.integers(-1, 5),
)
CONFIGS = st.dictionaries(TEXTS, TEXTS, max_size=3)
TOPICS = st.builds(
    ClusterTopic,
    TEXTS,
    st.binary(min_size=16, max_size=16),
    CONFIGS,
    st.lists(STATES, max_size=3).map(tuple),
)
BROKERS = st.builds(
    lambda controller, brokers: Brokers(controller, {each.id: each for each in brokers}),
    st.integers(-1, 5),
    st.lists(st.builds(RegisteredBroker, IDS, TEXTS, PORTS, NUMBERS, st.booleans(), LISTENERS), max_size=3),
)
KINDS = st.sampled_from([("user",), ("client-id",), ("user", "client-id"), ("ip",)])
ENTITIES = KINDS.flatmap(lambda kinds: st.fixed_dictionaries(dict.fromkeys(kinds, st.none() | TEXTS))).map(
    lambda each: frozenset(each.items())
)
CREDENTIALS = st.builds(ScramCredential, st.integers(1, 10**6), st.binary(), st.binary(), st.binary())
PRINCIPALS = st.builds(Principal, TEXTS.filter(lambda text: ":" not in text), TEXTS)
TOKENS = st.builds(
    DelegationToken,
    TEXTS,
    PRINCIPALS,
    PRINCIPALS,
    st.lists(PRINCIPALS, max_size=2).map(tuple),
    NUMBERS,
    NUMBERS,
    NUMBERS,
)
SETTINGS = st.builds(
    ClusterSettings,
    st.dictionaries(TEXTS, CONFIGS, max_size=2),
    st.dictionaries(ENTITIES, st.dictionaries(TEXTS, st.floats(allow_nan=False)), max_size=2),
    st.dictionaries(st.tuples(TEXTS, st.sampled_from([1, 2])), st.none() | CREDENTIALS, max_size=2),
    tokens=st.dictionaries(TEXTS, st.none() | TOKENS, max_size=2),
)
IMAGES = st.builds(
    lambda brokers, topics, next_id, settings: ClusterImage(
        brokers, {each.name: each for each in topics}, next_id, settings
    ),
    BROKERS,
    st.lists(TOPICS, max_size=3),
    NUMBERS,
    SETTINGS,
)
DELTAS = st.builds(
    Delta,
    st.none() | BROKERS,
    st.lists(TOPICS, max_size=2).map(tuple),
    st.lists(TOPICS, max_size=2).map(tuple),
    st.lists(st.builds(Placed, st.builds(TopicPartition, TEXTS, IDS), STATES), max_size=3).map(tuple),
    st.none() | SETTINGS,
)


@pytest.mark.slow
@given(IMAGES)
def test_an_image_is_read_as_it_was_written(image: ClusterImage) -> None:
    assert decode_image(from_json(to_json(encode_image(image)))) == image


@pytest.mark.slow
@given(DELTAS)
def test_a_change_is_read_as_it_was_written(delta: Delta) -> None:
    assert decode_delta(from_json(to_json(encode_delta(delta)))) == delta


@given(st.binary())
def test_any_bytes_give_json_or_an_error(data: bytes) -> None:
    with suppress(ValueError):  # every other error fails this test
        assert to_json({"": from_json(data)})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(IMAGES, st.data())
def test_a_damaged_image_is_a_value_or_an_error(image: ClusterImage, data: st.DataObject) -> None:
    form = encode_image(image)
    spoil(form, data)
    with suppress(ValueError):  # every other error fails this test
        read = decode_image(form)
        assert decode_image(from_json(to_json(encode_image(read)))) == read


@pytest.mark.slow
@given(DELTAS, st.data())
def test_a_damaged_change_is_a_value_or_an_error(delta: Delta, data: st.DataObject) -> None:
    form = encode_delta(delta)
    spoil(form, data)
    with suppress(ValueError):  # every other error fails this test
        read = decode_delta(form)
        assert decode_delta(from_json(to_json(encode_delta(read)))) == read


def spoil(form: Any, data: st.DataObject) -> None:
    """Replace or remove one value, at any depth."""
    while True:
        keys = list(form) if isinstance(form, dict) else list(range(len(form)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(form[key], dict | list) and form[key] and data.draw(st.booleans()):
            form = form[key]
        elif data.draw(st.booleans()):
            form[key] = data.draw(JSON)
            return
        else:
            del form[key]
            return


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff", "decode"),
        (b"", "Expecting value"),
    ],
)
def test_json_of_the_worst_kind_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(data)


def test_a_quota_may_be_no_number() -> None:
    """As AlterClientQuotas accepts it."""
    entity = frozenset({("user", "alice")})
    image = ClusterImage(settings=ClusterSettings(quotas={entity: {"producer_byte_rate": math.nan}}))
    read = decode_image(from_json(to_json(encode_image(image))))
    assert math.isnan(read.settings.quotas[entity]["producer_byte_rate"])


def test_an_error_names_the_field() -> None:
    form = encode_image(ClusterImage())
    form["next_producer_id"] = "7"
    with pytest.raises(ValueError, match="image: next_producer_id is not a number from 0 on"):
        decode_image(json.loads(json.dumps(form)))


@pytest.mark.parametrize("entity", [{}, {"group": "g"}, {"user": "u", "ip": None}, {"user": "u", "?": "x"}])
def test_an_unknown_quota_entity_is_refused(entity: dict[str, str | None]) -> None:
    form = encode_image(ClusterImage())
    form["settings"]["quotas"] = [{"entity": entity, "quotas": {"producer_byte_rate": 1.0}}]
    with pytest.raises(ValueError, match="quota: entity is not a user, a client id, both, or an IP"):
        decode_image(form)


@pytest.mark.parametrize("iterations", [None, 4096])
@pytest.mark.parametrize("mechanism", [0, 3])
def test_an_unknown_scram_mechanism_is_refused(mechanism: int, iterations: int | None) -> None:
    credential = ScramCredential(4096, b"salt", b"stored", b"server")
    form = encode_image(ClusterImage(settings=ClusterSettings(credentials={("alice", 1): credential})))
    form["settings"]["credentials"][0] |= {"mechanism": mechanism, "iterations": iterations}
    with pytest.raises(ValueError, match="credential: mechanism is not a number of a SCRAM mechanism"):
        decode_image(form)


def test_an_error_and_a_value_show_no_secret() -> None:
    credential = ScramCredential(4096, b"salt", b"stored", b"server")
    form = encode_image(ClusterImage(settings=ClusterSettings(credentials={("alice", 1): credential})))
    form["settings"]["credentials"][0]["stored_key"] = "hidden!"
    with pytest.raises(ValueError, match="stored_key is not base64") as raised:
        decode_image(form)
    assert "hidden" not in str(raised.value)
    assert "stored" not in repr(credential)
