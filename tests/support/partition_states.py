"""Short ways to write down what a controller decided, for tests of the core."""

from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember, PartitionState
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId

A, B, C = BrokerId(1), BrokerId(2), BrokerId(3)
TOPIC_ID = TopicId(b"0123456789abcdef")
FIRST_EPOCHS = {A: BrokerEpoch(11), B: BrokerEpoch(12), C: BrokerEpoch(13)}
"""The incarnation of each broker with which histories begin."""


def member(broker_id: BrokerId, broker_epoch: int | None = None) -> IsrMember:
    epoch = FIRST_EPOCHS[broker_id] if broker_epoch is None else BrokerEpoch(broker_epoch)
    return IsrMember(broker_id, epoch)


def isr_of(*members: BrokerId | IsrMember) -> tuple[IsrMember, ...]:
    return tuple(m if isinstance(m, IsrMember) else member(m) for m in members)


def partition_state(
    *isr: BrokerId | IsrMember,
    leader: BrokerId = A,
    leader_epoch: int = 5,
    partition_epoch: int = 0,
    replicas: tuple[BrokerId, ...] = (A, B, C),
    min_isr: int = 2,
    recovering: bool = False,
    unclean_epoch: int = -1,
) -> PartitionState:
    return PartitionState(
        topic="orders",
        topic_id=TOPIC_ID,
        partition=0,
        leader=leader,
        leader_epoch=LeaderEpoch(leader_epoch),
        isr=isr_of(*isr),
        partition_epoch=PartitionEpoch(partition_epoch),
        replicas=replicas,
        elr=(),
        eff_min_insync=min_isr,
        is_new=False,
        recovering=recovering,
        unclean_epoch=LeaderEpoch(unclean_epoch),
    )


def isr_answer(
    *isr: BrokerId | IsrMember,
    partition_epoch: int,
    leader: BrokerId = A,
    leader_epoch: int = 5,
    min_isr: int = 2,
) -> IsrAnswer:
    return IsrAnswer(
        leader=leader,
        leader_epoch=LeaderEpoch(leader_epoch),
        isr=isr_of(*isr),
        partition_epoch=PartitionEpoch(partition_epoch),
        eff_min_insync=min_isr,
    )
