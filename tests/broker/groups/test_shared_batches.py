"""Batches that decisions share: their bytes, and from which size on they are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets.broker.groups.shared_batches import encode
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import BatchTooLargeError, encode_batch

WALL_MS = 1_700_000_000_000
NO_LIMIT = 1 << 31

RECORDS = st.builds(CoordinatorRecord, st.binary(max_size=200), st.none() | st.binary(max_size=9000))


@given(
    st.lists(st.lists(RECORDS, max_size=80), min_size=1, max_size=4).filter(any),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.sampled_from([Compression.NONE, Compression.GZIP, Compression.LZ4]),
)
@settings(max_examples=50)
def test_a_coordinators_batch_is_that_of_its_keys_and_values(
    decided: list[list[CoordinatorRecord]], base_offset: int, epoch: int, compression: Compression
) -> None:
    made = encode(decided, WALL_MS, base_offset, epoch, compression, NO_LIMIT)
    assert made == encode_batch(
        [(record.key, record.value, (), WALL_MS) for records in decided for record in records],
        base_offset=base_offset,
        leader_epoch=epoch,
        base_sequence=0,
        compression=compression,
    )


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("sizes", [(10,), (3000,), (10, 5000, 900), (1,) * 3000])
def test_a_batch_is_refused_from_one_byte_too_many_on(sizes: tuple[int, ...], parts: int) -> None:
    decided = [[CoordinatorRecord(b"key", bytes(size)) for size in sizes] for _ in range(parts)]

    def made(most: int, compression: Compression = Compression.NONE) -> bytes:
        return encode(decided, WALL_MS, 0, 0, compression, most)

    for compression in (Compression.NONE, Compression.GZIP):
        batch = made(NO_LIMIT, compression)
        assert made(len(batch), compression) == batch
        with pytest.raises(BatchTooLargeError, match=f"{len(batch) - 1} are allowed"):
            made(len(batch) - 1, compression)
    with pytest.raises(BatchTooLargeError, match="5 are allowed"):
        made(5)
