"""One partition on three brokers and its controller, as values that can be hashed and compared.

This module decides nothing. Offsets are places in a tuple, times are two ("just now" and "too long
ago"), and the incarnations of a broker are numbered from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from strandline_broker.core.replication.follower import FetchAnswer, FetchPosition
    from strandline_broker.core.replication.partition_state import (
        IsrAnswer,
        IsrMember,
        PartitionState,
    )
    from strandline_broker.core.replication.remote_replica import RemoteReplica
    from strandline_proto.errors import WireError

BROKERS: Final = (1, 2, 3)
MIN_ISR: Final = 2
LOSSES_TOLERATED: Final = MIN_ISR - 1
"""How many replicas may lose unflushed data without a committed record being lost (I-54)."""

Entry = tuple[int, int, int]
"""A record: its leader epoch, the broker that appended it, and that broker's incarnation."""


class Violation(AssertionError):
    """A state or a step that must not be. The message begins with the invariant's number."""


class Log(NamedTuple):
    entries: tuple[Entry, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()
    """(epoch, where it starts), oldest first; the last one may have no records yet."""
    high_watermark: int = 0


class LeaderView(NamedTuple):
    """A `Leader` machine at rest."""

    me: IsrMember
    state: PartitionState
    epoch_start: int
    high_watermark: int
    log_end_offset: int
    followers: tuple[tuple[int, RemoteReplica], ...]
    isr: tuple[IsrMember, ...]
    eligible: tuple[tuple[int, int], ...]
    epoch_was_pushed: bool
    proposal: ProposalView | None


class ProposalView(NamedTuple):
    isr: tuple[IsrMember, ...]
    partition_epoch: int
    joins: tuple[IsrMember, ...]
    waits_to_retry: bool
    unsure: bool
    refused: bool


class FollowerView(NamedTuple):
    """A `Follower` machine at rest. Its steps do not depend on the partition epoch."""

    told: PartitionState
    is_over: bool
    truncates_to_high_watermark: bool


class FetchRequest(NamedTuple):
    """A fetch on its way to `leader`; its sender may be dead."""

    leader: int
    position: FetchPosition
    broker_epoch: int


class FetchResponse(NamedTuple):
    position: FetchPosition
    answer: FetchAnswer
    entries: tuple[Entry, ...]


class IsrRequest(NamedTuple):
    """An AlterPartition request on its way to the controller."""

    isr: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int
    broker_epoch: int
    is_awaited: bool
    """False if its sender has given up waiting, or no longer leads; the request may yet be applied.
    """


class IsrResponse(NamedTuple):
    leader_epoch: int
    outcome: IsrAnswer | type[WireError]


class RegisteredBroker(NamedTuple):
    epoch: int = 1
    is_fenced: bool = False
    is_stopping: bool = False


class Decided(NamedTuple):
    """The state that the controller has committed."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    brokers: tuple[RegisteredBroker, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False
    unclean_epoch: int = -1


class Node(NamedTuple):
    """One broker: its disk, its process if it runs, and one message each way."""

    broker_id: int
    broker_epoch: int
    is_up: bool = True
    stopped_cleanly: bool = False
    log: Log = Log()
    known: PartitionState | None = None
    eligible: tuple[tuple[int, int], ...] = ()
    role: LeaderView | FollowerView | None = None
    fetch: FetchRequest | FetchResponse | None = None
    late: FetchResponse | None = None
    """An answer of the previous leader that is still under way."""
    alter: IsrRequest | IsrResponse | None = None
    push: Decided | None = None
    """A decision on its way to this broker; the controller may have made newer ones."""


class Ghost(NamedTuple):
    """Facts that only the model has: every committed record, and the used part of each bound."""

    committed: tuple[Entry, ...] = ()
    """Every record that any leader has ever committed."""
    appends: int = 0
    kills: int = 0
    losses: int = 0
    suspicions: int = 0
    shutdowns: int = 0
    late_pushes: int = 0
    delays: int = 0
    lags: int = 0
    timeouts: int = 0
    answers: int = 0


class State(NamedTuple):
    """Places of the state's parts in the model's tables: equal parts have equal numbers."""

    decided: int
    node1: int
    node2: int
    node3: int
    ghost: int


class Bounds(NamedTuple):
    """Bounds that keep the model finite: how often each kind of event may happen."""

    appends: int = 2
    leader_epochs: int = 3
    partition_epochs: int = 6
    kills: int = 0
    """Deaths of processes, whose logs stay as they are."""
    losses: int = 0
    """Losses of power, with any part of the log that was written last."""
    suspicions: int = 0
    """Brokers that are fenced while they run."""
    shutdowns: int = 0
    """Controlled shutdowns."""
    late_pushes: int = 0
    """Decisions that reach a broker when newer ones exist."""
    delays: int = 0
    """Fetches that are sent now and served at any later time."""
    lags: int = 0
    """Times that a leader receives no fetch for longer than its lag allowance."""
    timeouts: int = 0
    """ISR changes whose leader gives up waiting, though they may yet be applied."""
    answers: int = 0
    """Times that a leader reports to the controller what it has applied, and the controller forgets
    the brokers that left the ISR.
    """
