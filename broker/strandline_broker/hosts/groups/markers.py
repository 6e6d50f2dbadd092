"""The end markers of transactions in partitions of `__consumer_offsets`.

Such a marker passes through the shard of its partition. So it moves the offsets in the state as it
is written, and the coordinator of the transaction gets its answer when both are committed (I-164,
P-104).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
)

if TYPE_CHECKING:
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.coordination.registry import Key, Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard


async def write_marker(shards: Shards[GroupShard], key: Key, marker: EndMarker) -> None:
    """Writes the marker and returns when it is committed. Raises WireError; the marker may still be
    committed then, and may be written again (I-156).

    A shard that does not serve answers NotLeaderOrFollower, as a partition without a leader does:
    the sender of markers tries again.
    """
    try:
        reply = await shards.of_partition(key).end_transaction(marker).answered()
        if reply is not None:
            raise reply
    except (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator) as error:
        raise NotLeaderOrFollower(str(error)) from error
