"""What brokers have said of their logs of partitions without a leader: where each one ends (I-53).

A broker says so with its answer to each push that names such a partition, so every new incarnation,
every new leader epoch and every restarted controller hears it anew, and nothing has to be kept.
While a partition has no leader its logs do not change, so what was said in its leader epoch by the
incarnation that is registered is true until there is a leader again.
"""

from dataclasses import dataclass

from strandline_broker.core.controller.log.state import Broker, PartitionRegistration
from strandline_broker.core.controller.partitions.led_epochs import LedEpochs
from strandline_broker.core.push_answer import LogEnd
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicId


@dataclass(frozen=True, slots=True)
class _Answer:
    broker_epoch: BrokerEpoch
    leader_epoch: LeaderEpoch
    end: LogEnd


class LogEnds:
    def __init__(self) -> None:
        self._answers: dict[tuple[TopicId, int], dict[BrokerId, _Answer]] = {}
        self.led = LedEpochs()

    def on_told(
        self,
        broker: Broker,
        partition: PartitionRegistration | None,
        *,
        leader_epoch: LeaderEpoch,
        end: LogEnd,
    ) -> None:
        """Words about another leader epoch than the present one are not kept; that bounds them."""
        if partition is None or partition.leader_epoch != leader_epoch:
            return
        answers = self._answers.setdefault((partition.topic_id, partition.index), {})
        answers[broker.broker_id] = _Answer(broker.epoch, leader_epoch, end)

    def of(self, partition: PartitionRegistration, broker: Broker) -> LogEnd | None:
        """Where the broker's log ends; None if this incarnation has not said so in this epoch."""
        answers = self._answers.get((partition.topic_id, partition.index), {})
        answer = answers.get(broker.broker_id)
        if answer is None or answer.broker_epoch != broker.epoch:
            return None
        return answer.end if answer.leader_epoch == partition.leader_epoch else None

    def forget(self, topic_id: TopicId, partition: int) -> None:
        self._answers.pop((topic_id, partition), None)

    def forget_topic(self, topic_id: TopicId) -> None:
        self.led.forget_topic(topic_id)
        for key in [key for key in self._answers if key[0] == topic_id]:
            del self._answers[key]
