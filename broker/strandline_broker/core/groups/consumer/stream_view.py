"""How far what a member says on its stream can be believed.

Messages of both directions cross: what a member sent before it had acted upon the last push says
that it lives and what it subscribes to, but its epoch and its list of what it owns are of an
earlier view. Taking that list for an acknowledgement would give away what the push grants (I-134,
P-143); fencing it for its epoch would punish a member for the coordinator's haste.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from strandline_broker.core.groups.commands import JOIN_EPOCH
from strandline_proto.errors import InvalidRequest

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import ConsumerBeat


def as_seen(beat: ConsumerBeat, *, seen_push: int, last_push: int) -> ConsumerBeat:
    """The heartbeat as the group is to take it, given the last push of its stream."""
    if not 0 <= seen_push <= last_push:
        raise InvalidRequest(
            f"seen_push is {seen_push}, and the last push of this stream is {last_push}"
        )
    if seen_push == last_push or beat.member_epoch < JOIN_EPOCH:
        return beat
    return replace(beat, crossed=True)
