"""Requests and answers of a Fetch stream as plain data.

Leader and follower use the same types; `rpc/records/fetch_codec.py` translates them to and from the
wire.
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
    """A reader's position, and the leader epoch that it expects (-1 skips that check)."""

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
    """The session; 0 until the first answer has named it."""
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    cluster_id: str = ""
    isolation_level: int = 0
    replica: Replica | None = None
    """The follower; None for a consumer."""
    positions: Mapping[Key, Position] = field(default_factory=dict)
    """The positions that changed since the last request."""
    forgotten: Sequence[Key] = ()


class Offsets(NamedTuple):
    """The leader's offsets that an answer reports beside its records."""

    high_watermark: int
    last_stable: int
    log_start: int


NO_OFFSETS: Final = Offsets(0, 0, 0)


@dataclass(slots=True)
class FetchedPartition:
    offsets: Offsets = NO_OFFSETS
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    """(epoch, its end in the leader's log), where the reader's history differs from the
    leader's.
    """
    error: WireError | None = None
    leader: CurrentLeader | None = None
    """The current leader, if this broker refuses."""
    aborted: Sequence[tuple[int, int]] = ()
    """(producer id, first offset) of the aborted transactions that may have records among these;
    found in the step that read them (P-122).
    """
    holds_replica: bool = True
    """False if this broker knows no offsets of the partition."""

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start

    def end_for(self, isolation: Isolation) -> int:
        """The end of a consumer's reading."""
        committed = isolation is Isolation.READ_COMMITTED
        return self.offsets.last_stable if committed else self.offsets.high_watermark


@dataclass(slots=True)
class FetchResponse:
    correlation_id: int
    session_id: int
    error: WireError | None = None
    """The session's error; then the answer names no partitions."""
    partitions: Mapping[Key, FetchedPartition] = field(default_factory=dict)
