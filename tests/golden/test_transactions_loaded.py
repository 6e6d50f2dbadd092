"""The directories of `__transaction_state` that Kafka 3.9.1 wrote, as a coordinator loads them."""

from __future__ import annotations

from strandline_broker.core.transactions.commands import Producer
from strandline_broker.core.transactions.records import decode
from strandline_broker.offline.batches import Batch, scan
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.records import records_of
from strandline_proto.decompression import Bound
from strandline_proto.ids import ProducerEpoch, ProducerId
from strandline_runtime.real import RealFileSystem
from support.kafka_golden import GOLDEN
from support.transactions_rig import TransactionsRig, code

RECORDS = 29


def loaded() -> TransactionsRig:
    """All partitions in one shard; their ids are apart."""
    rig = TransactionsRig()
    for path in sorted((GOLDEN / "clean").glob("__transaction_state-*/*.log")):
        with OpenFile(RealFileSystem(), str(path)) as file:
            for batch in scan(file):
                assert isinstance(batch, Batch)
                for record in records_of(file, batch, Bound(1 << 20, "a test's")):
                    assert record.key is not None
                    found = decode(record.key, record.value)
                    assert found is not None
                    rig.append(found)
    return rig


def test_each_record_of_kafkas_is_understood_and_leaves_two_ids_at_rest() -> None:
    rig = loaded()
    assert len(rig.log) == RECORDS
    assert {name: value.state.text for name, value in rig.transactions.table.items()} == {
        "tx-a": "CompleteCommit",
        "tx-b": "CompleteCommit",
    }
    assert rig.transactions.open == set()
    assert list(rig.transactions.unfinished()) == []
    assert rig.load(compacted=True).table == rig.transactions.table


def test_the_history_has_only_the_transitions_that_this_coordinator_has() -> None:
    log = loaded().log
    again = TransactionsRig()
    for _, record in log:
        again._check_transition(record)
        again.append(record)


def test_a_producer_that_kafka_knew_goes_on_with_its_epoch() -> None:
    rig = loaded()
    before = rig.of("tx-a")
    known = Producer(before.producer_id, before.producer_epoch)
    assert known == (ProducerId(2), ProducerEpoch(0))
    assert rig.end(known, name="tx-a", version=0) == known, "its repeated commit"
    rig.add(known, name="tx-a", version=0)
    assert rig.end(known, name="tx-a", version=0) == known
    rig.marked(name="tx-a")
    assert rig.init("tx-a") == (2, 1)
    assert code(rig.add(known, name="tx-a", version=0)) == 90
