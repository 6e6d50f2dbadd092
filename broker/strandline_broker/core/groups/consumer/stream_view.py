"""The credibility of a member's messages on its stream.

Messages of both directions cross. A message sent before the member acted on the last push proves
that it lives, and contains its subscription. Its epoch and its list of owned partitions belong to
an earlier view. Treating that list as an acknowledgement would give away partitions that the push
grants (I-134, P-143). Fencing the member for its epoch would be wrong too: the coordinator was too
early.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from strandline_broker.core.groups.commands import JOIN_EPOCH
from strandline_proto.errors import InvalidRequest

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import ConsumerBeat


def as_seen(beat: ConsumerBeat, *, seen_push: int, last_push: int) -> ConsumerBeat:
    """The heartbeat as the group must treat it, given the last push of its stream."""
    if not 0 <= seen_push <= last_push:
        raise InvalidRequest(
            f"seen_push is {seen_push}, and the last push of this stream is {last_push}"
        )
    if seen_push == last_push or beat.member_epoch < JOIN_EPOCH:
        return beat
    return replace(beat, crossed=True)
