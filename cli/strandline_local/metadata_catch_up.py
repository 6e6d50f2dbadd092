"""The wait until running brokers have applied the records of a controller that was just started.

A broker may have applied more than the controller's store holds. Then the store is not the one that
the broker followed, and the controller ends (P-76), a moment after its first answer. A broker has
caught up once it has applied a new record: each start writes at least one.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from strandline_local import probe
from strandline_local.cluster_files import CONTROLLER
from strandline_local.errors import ClusterError

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster

CATCH_UP_S: Final = 2.0
_ASK_S: Final = 0.5
_POLL_S: Final = 0.02


def applied_offsets(cluster: "LocalCluster") -> dict[int, int]:
    """The last record of the controller's log that each answering broker has applied."""
    found = ((broker_id, _applied_by(cluster, broker_id)) for broker_id in cluster.broker_ids)
    return {broker_id: offset for broker_id, offset in found if offset is not None}


def _applied_by(cluster: "LocalCluster", broker_id: int) -> int | None:
    if cluster.process(broker_id).pid is None:
        return None
    try:
        return probe.ask_metadata(cluster.address(broker_id), _ASK_S).metadata_offset
    except probe.NoAnswer:
        return None


def wait_beyond(
    cluster: "LocalCluster", before: Mapping[int, int], *, wait_s: float = CATCH_UP_S
) -> None:
    """Wait until each of these brokers has applied more than `before`, at most `wait_s`. Raises
    ClusterError with the controller's last log lines if it ends meanwhile.
    """
    deadline = time.monotonic() + wait_s
    waiting = dict(before)
    while waiting:
        for broker_id, offset in before.items():
            now = _applied_by(cluster, broker_id) if broker_id in waiting else None
            if now is not None and now > offset:
                del waiting[broker_id]
        if cluster.process(CONTROLLER).pid is None:
            raise ClusterError(cluster.exit_report(CONTROLLER))
        if time.monotonic() > deadline:
            return
        time.sleep(_POLL_S)
