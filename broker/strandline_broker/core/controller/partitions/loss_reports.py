"""The losses of records that brokers report with their heartbeats (I-53)."""

from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.brokers.registration import check_broker_epoch
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import LossRecord
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.losses import knows, with_loss


def decide_losses(state: ControllerState, heartbeat: Heartbeat) -> Decision[tuple[LossRecord, ...]]:
    """Store the new losses, in one batch; the answer lists them. Raises if the sender is no current
    incarnation. A repeated heartbeat contains nothing new.
    """
    check_broker_epoch(state, heartbeat.broker_id, heartbeat.broker_epoch)
    news, reports = [], state.losses
    for loss in heartbeat.losses:
        partition = state.partition(loss.topic_id, loss.partition)
        if partition is None or knows(reports, loss):
            continue
        name = state.topics[loss.topic_id].name
        reports = with_loss(reports, loss, topic=name, leader=partition.leader)
        news.append(loss)
    return Decision(news, answer=tuple(news))
