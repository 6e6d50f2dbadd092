"""Which leader epochs somebody has surely led: those that a leader has answered for (I-53)."""

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.partitions.led_epochs import LedEpochs
from strandline_proto.ids import BrokerId, LeaderEpoch
from support.controller_cluster import B1, B2, B3, Cluster


class Watched:
    """A partition of three brokers, whose leaders the test has die one after the other."""

    def __init__(self) -> None:
        self.cluster = Cluster([B1, B2, B3])
        self.topic = self.cluster.topic("t", (B1, B2, B3))
        self.applied, self.led = Applied(), LedEpochs()
        for broker in self.cluster.state.brokers.values():
            self.applied.on_registered(broker.broker_id, broker.epoch)

    def answers(self, broker_id: BrokerId, *, could: bool = True) -> None:
        failed = frozenset() if could else frozenset({(self.topic, 0)})
        epoch, offset = self.cluster.state.brokers[broker_id].epoch, self.cluster.state.last_offset
        self.applied.on_answered(broker_id, epoch, offset, failed=failed, full=could)

    def dies(self, broker_id: BrokerId) -> None:
        self.cluster.fence(broker_id)
        self.led.on_leader(self.cluster.partition(self.topic), self.applied)

    def surely(self) -> LeaderEpoch | None:
        return self.led.surely_led(self.cluster.partition(self.topic))


def test_a_leader_that_has_answered_has_led() -> None:
    watched = Watched()
    watched.led.on_created(watched.cluster.partition(watched.topic))
    watched.answers(B1)
    watched.dies(B1)
    assert watched.surely() is None, "the partition has a leader"
    watched.answers(B2)
    watched.dies(B2)
    watched.dies(B3)
    assert watched.surely() == 1, "broker 3 has died before it led"


def test_a_leader_that_has_not_answered_or_could_not_lead_has_not() -> None:
    watched = Watched()
    watched.led.on_created(watched.cluster.partition(watched.topic))
    watched.dies(B1)
    watched.answers(B2, could=False)
    watched.dies(B2)
    watched.dies(B3)
    assert watched.surely() == -1, "nobody has led"


def test_of_a_partition_from_before_nothing_is_known_until_a_leader_answers() -> None:
    watched = Watched()
    watched.led.on_found(watched.cluster.partition(watched.topic))
    watched.dies(B1)
    watched.dies(B2)
    watched.dies(B3)
    assert watched.surely() is None
    watched = Watched()
    watched.led.on_found(watched.cluster.partition(watched.topic))
    watched.answers(B1)
    for broker_id in (B1, B2, B3):
        watched.dies(broker_id)
    assert watched.surely() == 0


def test_a_topic_that_is_removed_is_forgotten() -> None:
    watched = Watched()
    watched.led.on_created(watched.cluster.partition(watched.topic))
    for broker_id in (B1, B2, B3):
        watched.dies(broker_id)
    watched.led.forget_topic(watched.topic)
    assert watched.surely() is None
