"""The current leader and its address in the tagged fields of an answer (KIP-951)."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from strandline_broker.kafka.wire import NO_TAGS, Writer
from strandline_proto.errors import FencedLeaderEpoch, NotLeaderOrFollower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_runtime.runtime import Buffer

    Address = tuple[int, str, int, str]
    """Node id, host, port and rack."""

HINTED: Final = frozenset((NotLeaderOrFollower.code, FencedLeaderEpoch.code))
"""The errors beside which a client reads who leads."""
_LEADER: Final = Struct(">ii")


def leader_tag(leader: tuple[int, int]) -> Buffer:
    """The value of a tagged field `CurrentLeader`: leader id and epoch."""
    return _LEADER.pack(*leader) + NO_TAGS


def endpoints_tag(nodes: Sequence[Address]) -> Buffer:
    """The value of a tagged field `NodeEndpoints`."""
    out = Writer(compact=True)
    out.length(len(nodes))
    for node_id, host, port, rack in nodes:
        out.int32(node_id)
        out.string(host)
        out.int32(port)
        out.string(rack or None)
        out.no_tags()
    return b"".join(out.buffers())
