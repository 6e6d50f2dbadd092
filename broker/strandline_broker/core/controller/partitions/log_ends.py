"""The log ends that brokers report for partitions without a leader (I-53).

A broker reports them with its answer to each push that names such a partition. Every new
incarnation, leader epoch and restarted controller therefore gets them again, and they need not be
stored. While a partition has no leader its logs do not change. A report of the registered
incarnation, in the current leader epoch, is therefore true until there is a leader again.
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
        """Store a report. One about another leader epoch than the present one is ignored, which
        bounds the reports.
        """
        if partition is None or partition.leader_epoch != leader_epoch:
            return
        answers = self._answers.setdefault((partition.topic_id, partition.index), {})
        answers[broker.broker_id] = _Answer(broker.epoch, leader_epoch, end)

    def of(self, partition: PartitionRegistration, broker: Broker) -> LogEnd | None:
        """The end of the broker's log; None if this incarnation has not reported it in this
        epoch.
        """
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
