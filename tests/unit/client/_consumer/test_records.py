"""Fetched bytes: how far an answer's batches go, and what becomes of those that are no records."""

import pytest
from aiokafka.codec import snappy_encode

from strandline import TopicPartition
from strandline._consumer.records import decode, last_of_run
from strandline.errors import CorruptRecords
from strandline_proto.batch import Compression, build_batch, prefix
from strandline_proto.decompression import Bound
from strandline_proto.errors import CorruptMessage
from support.hostile import GIB, batch_of, bytes_added, varint, zstd_bomb

BATCH = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=1)


def run_of(*bases: int) -> bytes:
    """Batches of two records each."""
    return b"".join(prefix(base, len(BATCH) - 12, 0) + BATCH[16:] for base in bases)


@pytest.mark.parametrize(("asked", "bases"), [(4, (4, 6)), (5, (4,)), (3, (4, 9)), (4, (4,))])
def test_batches_from_the_one_that_was_asked_for(asked: int, bases: tuple[int, ...]) -> None:
    last = last_of_run(run_of(*bases), asked)
    assert last is not None
    assert last.base_offset == bases[-1]


@pytest.mark.parametrize(
    ("asked", "bases"), [(4, (2, 4)), (3, (5, 3, 5)), (3, (4, 5)), (3, (4, 4))]
)
def test_batches_of_another_place_are_refused(asked: int, bases: tuple[int, ...]) -> None:
    with pytest.raises(CorruptMessage, match="must follow"):
        last_of_run(run_of(*bases), asked)


def test_no_whole_batch_is_none() -> None:
    assert last_of_run(run_of(4)[:-1], 4) is None
    assert last_of_run(b"", 4) is None


UNPACK = """
from strandline import TopicPartition
from strandline._consumer.records import decode
from strandline_proto.decompression import Bound
def prepare():
    import aiokafka.record._crecords, aiokafka.errors, cramjam
def act(data):
    bound = Bound(option="the consumer's max_decompressed_bytes")
    list(decode(data, TopicPartition("orders", 3), 0, check_crcs=True, bound=bound))
"""


def test_a_batch_that_unpacks_to_gigabytes_costs_a_consumer_little_memory() -> None:
    added, said = bytes_added(UNPACK, batch_of(zstd_bomb(2 * GIB), Compression.ZSTD))
    assert said.startswith("CorruptRecords: orders:3: the batch at offset 0: ")
    assert "raise the consumer's max_decompressed_bytes, or seek to 1 to skip it" in said
    assert added < 128_000_000


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(
            batch_of(varint(30) + b"\0" + varint(0) * 2 + varint(2**63 - 8) + bytes(20), 0),
            id="a key of 2^63 - 8 bytes",
        ),
        pytest.param(
            batch_of(snappy_encode(bytes(100)) + b"\0\0", Compression.SNAPPY),
            id="half a snappy block",
        ),
        pytest.param(batch_of(bytes(100), 5), id="a codec that nobody knows"),
    ],
)
def test_what_does_not_parse_is_corrupt_records(batch: bytes) -> None:
    with pytest.raises(CorruptRecords, match=r"orders:3: the batch at offset 0 .* seek to 1 to"):
        list(decode(batch, TopicPartition("orders", 3), 0, check_crcs=True, bound=Bound()))
