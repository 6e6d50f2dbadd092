"""What a leader wishes, and the one ISR change that it may have open (I-28)."""

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
"""Refusals after which only a push says what is committed."""


@dataclass(frozen=True, slots=True)
class HighWatermarkRaised:
    """Everything below `to` is committed: release the waiters."""

    to: Offset


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller for this ISR, as recovered; it is not ours until the controller says so.

    The host answers each one exactly once, with `on_isr_answer` or `on_isr_refused` and this
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
    """None while an answer is awaited, and when only newer metadata can settle it."""
    backoff_ms: int = RETRY_MS_MIN
    unsure: bool = False
    """An attempt ended without an answer: it may have been applied, or may yet be."""
    refused: bool = False

    def retry_is_due(self, now_ms: int) -> bool:
        return self.retry_at_ms is not None and now_ms >= self.retry_at_ms

    def retry_later(self, now_ms: int) -> None:
        self.retry_at_ms = now_ms + self.backoff_ms
        self.backoff_ms = min(2 * self.backoff_ms, RETRY_MS_MAX)

    def ask_again(self, request: ProposeIsr) -> None:
        """The same question under a new id, so that answers to earlier attempts mean nothing."""
        assert request.isr == self.request.isr
        self.request = request
        self.retry_at_ms = None
