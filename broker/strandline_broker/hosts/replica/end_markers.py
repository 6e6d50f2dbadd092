"""The end markers of transactions at the leader of one partition.

A coordinator of transactions asks for a marker until it is committed, so it may ask again after the
marker is written (I-156). Check and append are one synchronous step. The caller waits until
the high watermark has reached the returned offset before it answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication.producer_state import RepeatedMarker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import Offset

if TYPE_CHECKING:
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.replica.partition import Partition


def append_marker(partition: Partition, marker: EndMarker) -> Offset | None:
    """Appends the marker as the partition's leader, unless it is there already.

    Returns the end offset that has to be committed before the coordinator gets its answer; None if
    the marker is there and committed. Raises WireError, and nothing is written: without leadership,
    with too few replicas in sync, while the open transactions are not known (I-153), or if the
    epoch of the coordinator (52) or of the producer (47) is below one that the partition has seen
    (I-155).
    """
    leading = check_leader(partition, None)
    if partition.is_unsure_of_transactions:
        raise KafkaStorageError(
            f"{partition.name}: batches from offset {partition.lacks_from} on are damaged or"
            " misread, and may have begun or ended transactions; they are read again, try again"
            " soon"
        )
    verdict = partition.producers.check_marker(marker)
    leading.appends.on_marker(marker)  # a repeated marker may end a transaction without batches
    if isinstance(verdict, RepeatedMarker):
        end = verdict.required_offset
        required = Offset(partition.log.log_end_offset) if end is None else end
        return required if required > partition.high_watermark else None
    leading.machine.check_can_append_all()
    return leading.appends.append_marker(marker)
