"""A commit is answered from its request as it would be from a response."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.echo import compile_echo
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.testing import strategies


@pytest.mark.parametrize("version", range(11))
@given(data=st.data())
@settings(max_examples=30)
def test_an_echo_is_the_response_that_repeats_the_request(version: int, data: st.DataObject) -> None:
    request = data.draw(strategies.message(messages.OffsetCommitRequest, version, unknown_tags=True))
    response = messages.OffsetCommitResponse
    echo = compile_echo(request.SCHEMA, response.SCHEMA, version, response.CLASSES)
    out = bytearray(b"before")
    echo(request, out)
    made: messages.OffsetCommitResponse = refuse(request, ErrorCode.NONE, version)
    assert out == b"before" + messages.encode(made, version)


def test_a_request_that_does_not_fit_its_own_answer_is_a_value_error() -> None:
    request, response = messages.OffsetCommitRequest, messages.OffsetCommitResponse
    echo = compile_echo(request.SCHEMA, response.SCHEMA, 8, response.CLASSES)
    with pytest.raises(ValueError, match="OffsetCommitResponse v8"):
        echo(request("g", topics=[request.Topic("t", bytes(16), [request.Partition(2**31)])]), bytearray())
