"""The leader machine with defaults for tests, and short words for what it does."""

from collections.abc import Mapping

from strandline_broker.core.replication.leader import (
    Effect,
    HighWatermarkRaised,
    Leader,
    ProposeIsr,
)
from strandline_broker.core.replication.partition_state import IsrMember
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from support.partition_states import (
    FIRST_EPOCHS,
    A,
    B,
    C,
    partition_state,
)

LAG_MS = 100


def leader(
    *isr: BrokerId | IsrMember,
    end: int = 0,
    committed: int = 0,
    log_start: int = 0,
    durable: int = 0,
    min_isr: int = 2,
    flush_always: bool = False,
    recovering: bool = False,
    eligible: Mapping[BrokerId, BrokerEpoch] = FIRST_EPOCHS,
    offline: tuple[BrokerId, ...] = (),
    replicas: tuple[BrokerId, ...] = (A, B, C),
    now_ms: int = 0,
) -> Leader:
    return Leader(
        A,
        FIRST_EPOCHS[A],
        partition_state(*isr, min_isr=min_isr, recovering=recovering, replicas=replicas),
        log_end_offset=Offset(end),
        log_start_offset=Offset(log_start),
        high_watermark=Offset(committed),
        durable_offset=Offset(durable),
        eligible=eligible,
        offline=offline,
        lag_ms_max=LAG_MS,
        flush_always=flush_always,
        now_ms=now_ms,
    )


def fetch(
    p: Leader,
    broker: BrokerId,
    offset: int,
    *,
    now_ms: int = 0,
    broker_epoch: int | None = None,
    leader_epoch: int = 5,
    end_at_read: int | None = None,
    log_start: int = 0,
) -> list[Effect]:
    epoch = FIRST_EPOCHS.get(broker, 0) if broker_epoch is None else broker_epoch
    return p.on_follower_fetch(
        broker,
        broker_epoch=BrokerEpoch(epoch),
        leader_epoch=LeaderEpoch(leader_epoch),
        fetch_offset=Offset(offset),
        log_start_offset=Offset(log_start),
        now_ms=now_ms,
        log_end_at_read=None if end_at_read is None else Offset(end_at_read),
    )


def raised(to: int) -> HighWatermarkRaised:
    return HighWatermarkRaised(Offset(to))


def proposal(effects: list[Effect]) -> ProposeIsr:
    (found,) = [e for e in effects if isinstance(e, ProposeIsr)]
    return found


def without(*brokers: BrokerId) -> dict[BrokerId, BrokerEpoch]:
    return {b: e for b, e in FIRST_EPOCHS.items() if b not in brokers}
