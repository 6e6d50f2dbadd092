"""The effects that a leader requests, and its one open ISR proposal (I-28)."""

from dataclasses import dataclass
from typing import Final

from strandline_broker.core.replication.partition_state import IsrMember
from strandline_proto.errors import (
    FencedLeaderEpoch,
    InvalidUpdateVersion,
    NewLeaderElected,
    StaleBrokerEpoch,
)
from strandline_proto.ids import LeaderEpoch, Offset, PartitionEpoch

RETRY_MS_MIN: Final = 50
RETRY_MS_MAX: Final = 1000
NEWER_METADATA_WILL_TELL: Final = (
    FencedLeaderEpoch,
    InvalidUpdateVersion,
    NewLeaderElected,
    StaleBrokerEpoch,
)
"""Refusals after which only a push tells what is committed."""


@dataclass(frozen=True, slots=True)
class HighWatermarkRaised:
    """Release the waiters: everything below `to` is committed."""

    to: Offset


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller for this ISR, as recovered; it does not count until the controller
    confirms it.

    The host answers each request exactly once, with `on_isr_answer` or `on_isr_refused` and this
    request id.
    """

    request_id: int
    isr: tuple[IsrMember, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


Effect = HighWatermarkRaised | ProposeIsr


@dataclass(slots=True)
class Proposal:
    request: ProposeIsr
    joins: frozenset[IsrMember]
    retry_at_ms: int | None = None
    """Time of the next retry; None while an answer is awaited, and when only newer metadata can
    settle the proposal.
    """
    backoff_ms: int = RETRY_MS_MIN
    unsure: bool = False
    """True if an attempt ended without an answer: it may have been applied, or may still be."""
    refused: bool = False

    def retry_is_due(self, now_ms: int) -> bool:
        return self.retry_at_ms is not None and now_ms >= self.retry_at_ms

    def retry_later(self, now_ms: int) -> None:
        self.retry_at_ms = now_ms + self.backoff_ms
        self.backoff_ms = min(2 * self.backoff_ms, RETRY_MS_MAX)

    def ask_again(self, request: ProposeIsr) -> None:
        """Repeat the request under a new id, so that answers to earlier attempts are ignored."""
        assert request.isr == self.request.isr
        self.request = request
        self.retry_at_ms = None
