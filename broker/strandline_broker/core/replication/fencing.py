"""Fencing by leader epoch (I-33), the same for Fetch, ListOffsets and OffsetsForLeaderEpoch.

The epoch is checked before leadership and membership. A different epoch means that one side has
missed an election, so neither side's other knowledge can be used (KAFKA-14078).
"""

from strandline_proto.errors import FencedLeaderEpoch, UnknownLeaderEpoch
from strandline_proto.ids import UNKNOWN_EPOCH


def check_leader_epoch(requested: int, current: int, *, where: str) -> None:
    """Refuse a request made under another leader epoch; a request without one (-1) passes."""
    if requested == UNKNOWN_EPOCH:
        return
    if requested < current:
        raise FencedLeaderEpoch(
            f"{where}: leader epoch {requested} has ended, {current} is current; refresh metadata"
        )
    if requested > current:
        raise UnknownLeaderEpoch(
            f"{where}: leader epoch {requested} is newer than {current}, which this broker knows;"
            " retry"
        )
