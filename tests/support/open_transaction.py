"""Transactions at the leader of a partition, without a coordinator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from strandline_broker.core.replication.append_origin import AppendOrigin
from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.replica.end_markers import append_marker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId
from support.producer_log import transactional_batch

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.ids import Offset


def marker_of(
    producer_id: int, epoch: int, *, commit: bool = False, coordinator: int = 0, version: int = 2
) -> EndMarker:
    return EndMarker(
        ProducerId(producer_id), ProducerEpoch(epoch), commit, LeaderEpoch(coordinator), version
    )


def write(
    partition: Partition, producer_id: int, *values: bytes, epoch: int = 0, sequence: int = 0
) -> None:
    """Appends a batch of the producer's transaction, of now as its marker is."""
    batch = transactional_batch(
        producer_id,
        *(values or (b"a", b"b")),
        base_sequence=sequence,
        producer_epoch=epoch,
        timestamp_ms=int(time.time() * 1000),
    )
    check_leader(partition, None).appends.append(
        batch, acks=1, on_done=lambda _: None, origin=AppendOrigin.COORDINATOR
    )


def end(
    partition: Partition, producer_id: int, *, epoch: int = 1, commit: bool = False
) -> Offset | None:
    return append_marker(partition, marker_of(producer_id, epoch, commit=commit))
