"""The committed state of the controller, across its restarts.

- ISR, ELR and leader fit each other and the live brokers (I-22, I-23).
- Each change applies to the state that it was decided on (I-27), and epochs never fall (I-30).
- A leader was in sync, or the partition says that it was not (I-48, I-53).
- A recovering leader is alone (I-49).
- The ELR has the replicas that may hold everything, and no others (I-50, I-51).
- Leaders return to their preferred replicas when the cluster is quiet (I-97).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.controller.log.records import RECOVERED
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from strandline_proof.sim.oracles.controller.decided import DecidedLog, Key
from strandline_proof.sim.oracles.controller.moves import MoveOracle
from strandline_proof.sim.oracles.partition.remembered import RememberedOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import TOPIC
from strandline_proto.ids import BrokerId, TopicId

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from strandline_broker.core.controller.log.state import (
        Broker,
        ControllerState,
        PartitionRegistration,
    )
    from strandline_broker.core.replication.leader import Leader
    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.controller.decided import Decided

NO_LEADER = -1
UNCLEAN_ELECTION = "unclean.leader.election.enable"
"""A setting that only topics have in the simulation."""
QUIET_S = 0.7
"""Time without unrest: a session by the fastest clock of a controller, and a little less."""

__all__ = ["ControlOracle", "Key"]


class ControlOracle:
    """The oracle. `partitions` and `brokers` are the newest committed values ever seen."""

    def __init__(self, sometimes: Counter[str], disk: SimDisk) -> None:
        """`disk`: the controller's."""
        self.decided = DecidedLog(disk)
        self.moves = MoveOracle(sometimes)
        self.remembered = RememberedOracle(sometimes)
        self.recovered: set[Key] = set()
        """Partitions whose last batch has elected a leader by balanced recovery."""
        self.partitions: dict[Key, PartitionRegistration] = {}
        self.brokers: dict[int, Broker] = {}
        self.on_event: Callable[[str], None] = lambda event: None
        """Called with `leader` and `isr`, when one changes."""
        self.now: Callable[[], float] = lambda: 0.0
        self.commanded = False
        """True if an administrator moves leaders too, quiet or not."""
        self.by_hand = False
        """True if an operator may have had a leader elected uncleanly."""
        self._unrest_s = 0.0
        """The time at which a broker last came back, went, or began to stop."""
        self._sometimes = sometimes
        self._last_offset = -1
        self._epoch = -1
        self._seen: tuple[ControllerState, int] | None = None
        self.state: ControllerState | None = None
        """The controller's state at the last look."""
        self._reborn: set[int] = set()
        """Brokers of which a new incarnation has registered in the last batch."""
        self._minima: dict[Key, int] = {}

    def on_step(self, state: ControllerState) -> bool:
        """Returns whether anything was committed since the last look."""
        if self._seen is not None and self._seen[0] is state:
            if self._seen[1] == state.last_offset:
                return False
        elif state.last_offset < self._last_offset:
            raise Violation(
                "I-30",
                f"the controller came back with metadata offset {state.last_offset}, and had"
                f" committed {self._last_offset}",
            )
        self._seen = state, state.last_offset
        if state.controller_epoch < self._epoch:
            raise Violation("I-30", f"controller epoch fell to {state.controller_epoch}")
        self._epoch = state.controller_epoch
        self._last_offset = state.last_offset
        self.state = state
        self.decided.read_to(state.last_offset)
        self._reborn.clear()
        self.recovered.clear()
        for number, broker in state.brokers.items():
            if self.brokers.get(number) is not broker:
                self._on_broker(number, broker)
        count = 0
        for partition in state.partitions():
            count += 1
            key = (partition.topic_id, partition.index)
            if self.partitions.get(key) is not partition:
                self._on_partition(key, partition, self._by_the_log(key, partition).minimum)
        if len(self.partitions) > count:
            self._forget(state)
        self._check_fenced()
        return True

    def on_restored(self) -> None:
        """The store has been restored: no replica counts as in sync until a leader was elected."""
        self.partitions.clear()
        self.brokers.clear()
        self.remembered.on_restored()
        self.decided.start_again()

    def _by_the_log(self, key: Key, partition: PartitionRegistration) -> Decided:
        """The partition by the controller's log. I-30: the controller's state agrees with it."""
        decided = self.decided.newest(key)
        if decided is None or decided.differs_from(partition):
            raise Violation(
                "I-30",
                f"partition {key[1]}: the controller goes by {partition}, and its log says"
                f" {decided}",
            )
        return decided

    def _forget(self, state: ControllerState) -> None:
        """Topics have been deleted. Their ids never come back (I-36)."""
        for key in [key for key in self.partitions if key[0] not in state.topics]:
            del self.partitions[key]
            self._sometimes["partition deleted"] += 1

    def on_leads(self, key: Key, leader: Leader) -> None:
        """A leader has changed the ISR or the epoch that it counts by."""
        if key in self.partitions:
            self.remembered.on_leads(key, leader, self.partitions[key], self._minima[key])

    def main_keys(self) -> list[Key]:
        """The partitions of the main topic."""
        return self.keys_of(TOPIC)

    def keys_of(self, topic: str) -> list[Key]:
        topic_id = None if self.state is None else self.state.topic_ids.get(topic)
        return [key for key in self.partitions if key[0] == topic_id]

    def is_main(self, key: Key) -> bool:
        return self.state is not None and key[0] == self.state.topic_ids.get(TOPIC)

    def is_offsets(self, key: Key) -> bool:
        """True if the partition is of the groups' topic, which is compacted."""
        return self.state is not None and key[0] == self.state.topic_ids.get(CONSUMER_OFFSETS)

    def is_internal(self, key: Key) -> bool:
        """True if only coordinators write to the partition."""
        topic_ids = {} if self.state is None else self.state.topic_ids
        return any(key[0] == topic_ids.get(topic) for topic in INTERNAL_TOPICS)

    def min_insync(self, partition: PartitionRegistration) -> int:
        """The minimum by the topic's and the cluster's configuration in the log (I-91)."""
        return self.decided.minimum((partition.topic_id, partition.index))

    def spare(self, key: Key, partition_epoch: int) -> int | None:
        """The number of replicas in sync at that partition epoch beyond the required ones; None if
        this store has no such epoch.
        """
        at = self.decided.at(key, partition_epoch)
        return None if at is None else len(at.isr) - at.minimum

    def barred(self, key: Key, *, as_of: int) -> set[BrokerId]:
        """Brokers whose replica may not join the ISR of the partition; none unless `as_of` covers
        every decision.
        """
        state = self.state
        if state is None or as_of < state.last_offset:
            return set()
        return {
            number
            for number, broker in state.brokers.items()
            if broker.fenced
            or broker.in_controlled_shutdown
            or any((r.topic_id, r.partition) == key for r in broker.offline_replicas)
        }

    def elects_uncleanly(self, key: Key) -> bool:
        """True if its topic allows a leader that was not in sync."""
        assert self.state is not None
        topic = self.state.topics.get(TopicId(key[0]))
        return topic is not None and topic.configs.get(UNCLEAN_ELECTION) == "true"

    def _on_broker(self, number: int, broker: Broker) -> None:
        known = self.brokers.get(number)
        if known is not None and broker.epoch < known.epoch:
            raise Violation("I-30", f"the epoch of broker {number} fell to {broker.epoch}")
        if known is not None:
            same = broker.incarnation_id == known.incarnation_id
            if same != (broker.epoch == known.epoch):
                raise Violation(
                    "I-32",
                    f"broker {number} of epoch {known.epoch} registered as epoch {broker.epoch} and"
                    f" is {'the same' if same else 'another'} incarnation",
                )
        if known is not None and broker.epoch != known.epoch:
            self._reborn.add(number)
            self._unrest_s = self.now()
        elif known is not None and not broker.eligible and known.eligible:
            self._unrest_s = self.now()
        if known is not None and broker.fenced and not known.fenced:
            self._sometimes["broker fenced"] += 1
        self.brokers[number] = broker

    def _on_partition(self, key: Key, new: PartitionRegistration, least: int) -> None:
        where = f"partition {key[1]}"
        old, was_least = self.partitions.get(key), self._minima.get(key)
        self.partitions[key], self._minima[key] = new, least
        _check_shape(where, new, least)
        if old is None or old == new:
            return
        self._check_recovery(where, old, new)
        unclean = new.unclean_epoch > old.unclean_epoch and new.unclean_epoch == new.leader_epoch
        given_up = unclean and (self.by_hand or self.elects_uncleanly(key))
        if unclean and not given_up:
            self._check_unclean(where, key, old)
        self.remembered.on_changed(key, old, new, given_up=given_up)
        self.moves.on_change(where, old, new)
        if was_least == least and old.replicas == new.replicas:
            self._check_eligible(where, old, new, least)
        if new.partition_epoch <= old.partition_epoch or new.leader_epoch < old.leader_epoch:
            raise Violation(
                "I-30",
                f"{where}: (leader epoch, partition epoch) went from"
                f" {(old.leader_epoch, old.partition_epoch)} to"
                f" {(new.leader_epoch, new.partition_epoch)}",
            )
        self._check_election(where, old, new)
        if new.leader != old.leader:
            self._sometimes["leader changed"] += 1
            self.on_event("leader")
        if len(new.isr) < len(old.isr):
            self._sometimes["ISR shrunk"] += 1
        if len(new.isr) > len(old.isr):
            self._sometimes["ISR grown"] += 1
        if new.isr != old.isr:
            self.on_event("isr")

    def _check_election(
        self, where: str, old: PartitionRegistration, new: PartitionRegistration
    ) -> None:
        """I-48: a leader is of the ISR or the ELR that it was elected from, unless the partition
        says that it may have lost records. While replicas change, one batch may have both the
        election and the ISR that it is from.
        """
        if new.leader in (old.leader, NO_LEADER) or new.replicas != old.replicas:
            return
        declared = new.leader_recovery_state != RECOVERED
        if not declared and new.leader not in {*old.isr, *old.elr}:
            raise Violation(
                "I-48",
                f"{where}: {new.leader} was elected; in sync were {old.isr}, ELR {old.elr}",
            )
        broker = self.brokers.get(new.leader)
        if broker is None or not broker.eligible:
            raise Violation("I-48", f"{where}: {new.leader} was elected and is not alive")
        was = self.brokers.get(old.leader)
        if was is not None and was.eligible and old.leader in new.isr:
            self._sometimes["leader moved without need"] += 1
            quiet_s = self.now() - self._unrest_s
            if not self.commanded and quiet_s < QUIET_S:
                raise Violation(
                    "I-97",
                    f"{where}: the controller gave it from {old.leader} to {new.leader} by itself"
                    f" {quiet_s:.3f} s after a broker came or went",
                )

    def _check_recovery(
        self, where: str, old: PartitionRegistration, new: PartitionRegistration
    ) -> None:
        """I-48, I-49: a recovery begins with an election, and its leader alone is the ISR until it
        ends.
        """
        if new.leader_recovery_state == RECOVERED:
            return
        if len(new.isr) > 1:
            raise Violation("I-49", f"{where}: ISR {new.isr} before {new.leader} has recovered")
        if old.leader_recovery_state == RECOVERED:
            self._sometimes["leader not known to be in sync"] += 1
            if new.leader_epoch == old.leader_epoch:
                raise Violation("I-49", f"{where}: a recovery begins without an election")
            if new.elr:
                raise Violation("I-48", f"{where}: ELR {new.elr} stays")

    def _check_unclean(self, where: str, key: Key, old: PartitionRegistration) -> None:
        """I-48, I-53: a leader that was not in sync is elected if the topic allows it, if an
        operator has commanded it, or when all last members of the ISR are back.
        """
        self.recovered.add(key)
        brokers = self.brokers
        away = [b for b in old.last_known_elr if b not in brokers or brokers[b].fenced]
        if away or old.isr or old.elr:
            raise Violation(
                "I-48",
                f"{where}: a leader that need not be in sync was elected over ISR {old.isr}, ELR"
                f" {old.elr}, last known {old.last_known_elr}, of whom {away} are not here; its"
                " topic does not allow that",
            )
        self.remembered.check_awaited(key, where, brokers)

    def _check_eligible(
        self, where: str, old: PartitionRegistration, new: PartitionRegistration, least: int
    ) -> None:
        """I-50: below the minimum a former member of the ISR stays eligible, unless it may have
        lost something; no other replica becomes eligible.
        """
        if new.leader_recovery_state != RECOVERED and new.leader_epoch != old.leader_epoch:
            return  # an unclean election: the earlier knowledge of the other replicas is void
        complete = {*old.isr, *old.elr} - {*new.isr}
        if not set(new.elr) <= complete:
            raise Violation("I-50", f"{where}: ELR {new.elr} after ISR {old.isr}, ELR {old.elr}")
        if len(new.isr) >= least:
            return
        if new.elr and not old.elr:
            self._sometimes["replica eligible after it left the ISR"] += 1
        for member in complete - {*new.elr} - self._reborn:
            broker = self.brokers[member]
            condition = broker.condition_of(new.topic_id, new.index)
            if condition is None or not condition.has_lost:
                raise Violation(
                    "I-50",
                    f"{where}: {member} was in sync, ISR {old.isr}, ELR {old.elr}, and is not"
                    f" eligible: ISR {new.isr}, ELR {new.elr}",
                )

    def _check_fenced(self) -> None:
        """No fenced, stopping or newly registered broker is in an ISR."""
        for (_, index), partition in self.partitions.items():
            for member in partition.isr:
                broker = self.brokers.get(member)
                if broker is None or not broker.eligible or member in self._reborn:
                    raise Violation(
                        "I-23",
                        f"partition {index}: broker {member}, fenced, stopping or new, is in the"
                        f" ISR {partition.isr}, leader {partition.leader}",
                    )


def _check_shape(where: str, new: PartitionRegistration, least: int) -> None:
    members = (*new.isr, *new.elr)
    if len(set(members)) != len(members) or not set(members) <= set(new.replicas):
        raise Violation("I-22", f"{where}: ISR {new.isr}, ELR {new.elr} of {new.replicas}")
    if (new.leader in new.isr) != bool(new.isr) or (new.leader != NO_LEADER) != bool(new.isr):
        raise Violation("I-22", f"{where}: leader {new.leader} with the ISR {new.isr}")
    if new.elr and len(new.isr) >= least:
        raise Violation("I-50", f"{where}: ISR {new.isr} of {least}, and ELR {new.elr}")
