"""Batch headers without batches, for tests of what brokers decide by the header alone."""

from strandline_proto.batch import BatchHeader


def batch_header(
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records: int = 1,
    *,
    offset: int = 0,
    leader_epoch: int = 0,
    timestamp: int = 0,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=49 + records,
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=records - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=records,
    )
