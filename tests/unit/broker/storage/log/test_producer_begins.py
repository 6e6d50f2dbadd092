"""A producer that was forgotten and began again behind its first sequence, on disk."""

from pathlib import Path

import pytest
from crc32c import crc32c

from strandline_broker.offline.indexes import producer_entries
from strandline_broker.storage.log.log import LogConfig
from strandline_broker.storage.log.producer_snapshot import ProducerEntry, parse, serialize
from strandline_proto.errors import OutOfOrderSequenceNumber
from support.batch_headers import batch_header
from support.decoders import disk_with
from support.producer_log import ProducerLog, idempotent_batch
from support.storage import Store

P = 7
ENTRY_OF_P = ProducerEntry(P, 0, 11, 11, 0, 1000, -1, -1)


def test_where_the_batches_of_a_forgotten_producer_begin_comes_back(tmp_path: Path) -> None:
    """P-80: after a stop, a kill and a cut, and on a follower."""
    p = ProducerLog(Store(tmp_path / "leader", LogConfig(segment_bytes=250)))
    for i in range(6):
        p.append(idempotent_batch(P, 30 + i, b"v" * 40))
        p.append(idempotent_batch(P + 1, i, b"v" * 40))
    before = p.entries
    assert [(entry[0], entry[-1]) for entry in before] == [(P, 30), (P + 1, -1)]
    follower = ProducerLog(Store(tmp_path / "follower", p.store.config))
    while follower.log.log_end_offset < p.log.log_end_offset:
        follower.copy_from(p.log, max_bytes=1)
    for replica in (p, follower):
        for again in (replica.stop, replica.kill):
            again()
            assert replica.entries == before, "I-58"
        with pytest.raises(OutOfOrderSequenceNumber, match="begin with 30"):
            replica.producers.check(batch_header(P, 0, 29), 0)
        replica.truncate(8)
        assert [(entry[2], entry[-1]) for entry in replica.entries] == [(33, 30), (3, -1)]


def test_the_sequences_where_producers_begin_follow_the_entries() -> None:
    late = ENTRY_OF_P._replace(producer_id=9, begins_at=4)
    plain, data = serialize([ENTRY_OF_P]), serialize([ENTRY_OF_P, late])
    assert parse(data) == (ENTRY_OF_P, late)
    assert len(data) == len(plain) + 46 + 12
    assert data[-12:] == (9).to_bytes(8, "big") + (4).to_bytes(4, "big")
    found = producer_entries(disk_with("s", data), "/d/s")
    assert [(entry.producer_id, entry.begins_at) for entry in found] == [(P, -1), (9, 4)]
    for cut in (data[:-1], data[:-13]):
        body = cut[:2] + crc32c(cut[6:]).to_bytes(4, "big") + cut[6:]
        with pytest.raises(ValueError, match="2 producers"):
            parse(body)
        with pytest.raises(ValueError, match="2 producers"):
            producer_entries(disk_with("s", body), "/d/s")
