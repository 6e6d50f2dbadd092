"""Kafka's own dump tool reads the records of `__transaction_state` that Strandline wrote, and takes
each field for what was meant. It skips the field that only Strandline has.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.transactions.transaction import DATA_EPOCH_MAX
from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import build_batch
from support.kafka_tools import KafkaTools
from support.producer_log import ProducerLog
from support.storage import Store
from support.transactions_rig import T0, T1, TIMEOUT_MS, WALL_MS, TransactionsRig

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.core.transactions.commands import Producer

pytestmark = [pytest.mark.integration, pytest.mark.maven]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> KafkaTools:
    try:
        return KafkaTools.resolve(tmp_path_factory.mktemp("kafka-tools"))
    except (RuntimeError, FileNotFoundError) as why:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Maven cannot fetch Kafka's tools: {str(why).splitlines()[0]}")


def a_history() -> TransactionsRig:
    """Each state, both versions, and the last epoch."""
    rig = TransactionsRig()
    producer: Producer = rig.init()
    rig.add(producer, T0, T1)
    rig.end(producer)
    rig.marked()
    old = rig.begun("old", version=0)
    rig.end(old, commit=False, name="old", version=0)
    rig.marked(name="old")
    last = rig.at(DATA_EPOCH_MAX, "last")
    rig.add(last, name="last")
    rig.end(last, name="last")
    rig.marked(name="last")
    return rig


def test_kafkas_transaction_log_decoder_reads_what_we_wrote(
    kafka: KafkaTools, tmp_path: Path
) -> None:
    rig = a_history()
    log = ProducerLog(Store(tmp_path, LogConfig(segment_bytes=1 << 20)))
    for _, record in rig.log:
        log.append(build_batch([rig.transactions.encode(record)], timestamp_ms=WALL_MS), epoch=0)
    log.log.close()
    segment = log.store.log_dir / f"{0:020d}.log"
    dump = kafka.dump([segment], "--transaction-log-decoder", "--print-data-log")
    told = re.findall(r"key: (\{.*\}) payload: (\{.*\})", dump.output)
    assert len(told) == len(rig.log), dump.output
    for (raw_key, raw_value), (_, record) in zip(told, rig.log, strict=True):
        assert json.loads(raw_key)["data"] == {"transactionalId": record.key.transactional_id}
        said, meant = json.loads(raw_value)["data"], record.value
        assert said["producerId"] == meant.producer_id
        assert said["producerEpoch"] == meant.producer_epoch
        assert said.get("previousProducerId", -1) == meant.previous_producer_id
        assert said.get("nextProducerId", -1) == meant.next_producer_id
        assert said["transactionTimeoutMs"] == TIMEOUT_MS
        assert said["transactionStatus"] == meant.state
        assert said.get("clientTransactionVersion", 0) == meant.version
        assert said["transactionLastUpdateTimestampMs"] == meant.updated_ms
        assert said["transactionStartTimestampMs"] == meant.started_ms
        partitions = [
            (topic["topic"], index)
            for topic in said["transactionPartitions"] or ()
            for index in topic["partitionIds"]
        ]
        assert tuple(partitions) == meant.partitions
