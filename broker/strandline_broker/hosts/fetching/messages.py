"""What readers ask on a Fetch stream and what leaders answer, as plain data.

Leader and follower speak it alike; `rpc/records/fetch_codec.py` translates it to and from the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.core.replication.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_broker.core.metadata_cache import CurrentLeader
    from strandline_proto.decompression import Buffer
    from strandline_proto.errors import WireError

    Key = tuple[bytes, int]
    """Topic id and partition."""


class Position(NamedTuple):
    """Where a reader stands, and which leader epoch it believes in (-1 skips that check)."""

    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class Replica(NamedTuple):
    """A follower, and the incarnation of its process."""

    broker_id: int
    broker_epoch: int


@dataclass(slots=True)
class FetchRequest:
    correlation_id: int
    session_id: int
    """0 until the first answer has named it."""
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    cluster_id: str = ""
    isolation_level: int = 0
    replica: Replica | None = None
    """None: a consumer asks."""
    positions: Mapping[Key, Position] = field(default_factory=dict)
    """What has changed since the last request."""
    forgotten: Sequence[Key] = ()


class Offsets(NamedTuple):
    """What an answer says of the leader's log beside its records."""

    high_watermark: int
    last_stable: int
    log_start: int


NO_OFFSETS: Final = Offsets(0, 0, 0)


@dataclass(slots=True)
class FetchedPartition:
    offsets: Offsets = NO_OFFSETS
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    """(epoch, its end in the leader's log), where the reader's history is not the leader's."""
    error: WireError | None = None
    leader: CurrentLeader | None = None
    """Who leads now, where this broker refuses."""
    holds_replica: bool = True
    """False: this broker knows no offsets of the partition."""

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start

    def end_for(self, isolation: Isolation) -> int:
        """Where a consumer's reading ends."""
        committed = isolation is Isolation.READ_COMMITTED
        return self.offsets.last_stable if committed else self.offsets.high_watermark


@dataclass(slots=True)
class FetchResponse:
    correlation_id: int
    session_id: int
    error: WireError | None = None
    """Of the session; then it names no partitions."""
    partitions: Mapping[Key, FetchedPartition] = field(default_factory=dict)
