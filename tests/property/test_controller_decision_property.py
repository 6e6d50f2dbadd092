"""Random histories of brokers and partitions against the controller's decisions.

After every batch: the ISR rules (I-22, I-23), compare-and-set (I-27), epochs that never go back
(I-30), leaders that a clean election may choose (P-27), and a replay of the log, whole or
from a snapshot on, that gives the very same state. The model beside it is dumb: it remembers what
it saw before the batch.
"""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline_broker.core.controller.brokers.fencing import decide_fence, decide_replica_failed
from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.brokers.unfencing import decide_unfence
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    RECOVERED,
    RECOVERING,
    OfflineReplica,
    decode,
)
from strandline_broker.core.controller.log.snapshot import Snapshot, restore, take
from strandline_broker.core.controller.log.startup import decide_start
from strandline_broker.core.controller.log.state import (
    Broker,
    ControllerState,
    PartitionRegistration,
)
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    decide_alter_partition,
)
from strandline_broker.core.controller.partitions.offline_replicas import (
    decide_offline_replicas,
    tells_news,
)
from strandline_broker.core.controller.producer_ids import decide_producer_ids
from strandline_broker.core.controller.topics.topics import decide_delete_topic
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proto.errors import DuplicateBrokerRegistration, WireError
from strandline_proto.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)
from support.controller_cluster import SESSION_MS, Cluster
from support.controller_leadership import add_partitions, balance, elect
from support.controller_recovery import recover
from support.controller_store import same
from support.examples import examples

IDS = [BrokerId(n) for n in range(4)]
brokers = st.sampled_from(IDS)
Key = tuple[TopicId, int]


class ControllerHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(IDS[:3])
        self.names = 0
        self.given_ids = 0
        self.partitions: dict[Key, PartitionRegistration] = {}
        self.brokers: dict[BrokerId, Broker] = {}
        self.controller_epoch = -1
        self.last_offset = -1
        self.minima: dict[Key, int] = {}
        self.heard: dict[Key, tuple[PartitionEpoch, int]] = {}
        self.envelopes_heard = 0
        self.snapshot: Snapshot | None = None

    # -- what may happen

    @rule(
        b=brokers,
        clean=st.booleans(),
        same_disk=st.booleans(),
        always=st.booleans(),
    )
    def restart(self, b: BrokerId, clean: bool, same_disk: bool, always: bool) -> None:
        old = self.cluster.state.brokers.get(b)
        marker = old.epoch if old is not None and clean else NO_BROKER_EPOCH
        before = dict(self.cluster.state.brokers)
        kept = {p: (p.isr, p.leader_epoch) for p in self.cluster.state.partitions()}
        try:
            epoch = self.cluster.register(
                b,
                previous_broker_epoch=marker,
                directory_id=f"dir-{b}" if same_disk else f"other-{b}",
                flush_policy="always" if always else "replicated",
            )
        except DuplicateBrokerRegistration:
            assert old is not None
            assert old.directory_id != (f"dir-{b}" if same_disk else f"other-{b}")
            return
        assert epoch > max((x.epoch for x in before.values()), default=-1)
        lost_nothing = (
            old is not None
            and old.directory_id == (f"dir-{b}" if same_disk else f"other-{b}")
            and (clean or (always and old.flush_policy == "always"))
        )
        for partition, (isr, leader_epoch) in kept.items():
            now = self.cluster.partition(partition.topic_id, partition.index)
            if b in isr:
                assert b not in now.isr, "decision 4: it leaves the ISR first"
                assert now.partition_epoch > partition.partition_epoch
                if not lost_nothing:
                    assert now.leader_epoch > leader_epoch, "P-73"
            assert lost_nothing or b not in now.elr, "I-51"

    @rule(ms=st.integers(0, SESSION_MS))
    def time_passes(self, ms: int) -> None:
        self.cluster.now_ms += ms

    @rule(b=brokers)
    def heartbeat(self, b: BrokerId) -> None:
        broker = self.cluster.state.brokers.get(b)
        if broker is not None:
            self.cluster.sessions.on_heard(b, broker.epoch, self.cluster.now_ms)

    @rule()
    def sweep(self) -> None:
        expired = self.cluster.sessions.oldest_expired(self.cluster.now_ms)
        if expired is not None:
            self.cluster.sessions.forget(*expired)
            self.cluster.commit(decide_fence(self.cluster.state, *expired))

    @rule(b=brokers, stale=st.integers(0, 1))
    def fence(self, b: BrokerId, stale: int) -> None:
        broker = self.cluster.state.brokers.get(b)
        if broker is not None:
            epoch = BrokerEpoch(broker.epoch - stale)
            assert not (self.cluster.commit(decide_fence(self.cluster.state, b, epoch)) and stale)

    @rule(b=brokers, behind=st.integers(0, 6))
    def unfence(self, b: BrokerId, behind: int) -> None:
        broker = self.cluster.state.brokers.get(b)
        if broker is None:
            return
        applied = MetadataOffset(self.cluster.state.last_offset - behind)
        done = self.cluster.commit(
            decide_unfence(self.cluster.state, b, broker.epoch, applied=applied)
        )
        if done:
            assert applied >= broker.fencing_offset >= broker.epoch, "I-83"
            for partition in self.cluster.state.partitions():
                condition = broker.condition_of(partition.topic_id, partition.index)
                serves = condition is None or condition.can_lead
                if b in partition.elr and self.on_its_disk(partition, b) and serves:
                    assert partition.leader != NO_LEADER, "it is elected on unfence"

    @rule(b=brokers)
    def shut_down(self, b: BrokerId) -> None:
        if b in self.cluster.state.brokers and self.cluster.shut_down(b):
            assert all(p.leader != b for p in self.cluster.state.partitions()), "I-84"

    @rule(b=brokers, data=st.data())
    def replica_fails(self, b: BrokerId, data: st.DataObject) -> None:
        broker = self.cluster.state.brokers.get(b)
        partitions = list(self.cluster.state.partitions())
        if broker is None or not partitions:
            return
        partition = data.draw(st.sampled_from(partitions))
        as_of = MetadataOffset(self.cluster.state.last_offset - data.draw(st.integers(0, 3)))
        self.cluster.commit(
            decide_replica_failed(
                self.cluster.state,
                b,
                broker.epoch,
                topic_id=partition.topic_id,
                partition=partition.index,
                as_of=as_of,
            )
        )

    @rule(b=brokers, data=st.data())
    def tell_offline(self, b: BrokerId, data: st.DataObject) -> None:
        state = self.cluster.state
        broker = state.brokers.get(b)
        partitions = list(state.partitions())
        if broker is None or not partitions:
            return
        told = data.draw(
            st.lists(
                st.tuples(st.sampled_from(partitions), st.sampled_from(ReplicaCondition)),
                max_size=3,
            )
        )
        heartbeat = Heartbeat(
            broker_id=b,
            broker_epoch=broker.epoch,
            current_metadata_offset=MetadataOffset(0),
            want_fence=False,
            want_shut_down=False,
            offline_replicas=frozenset(
                OfflineReplica(p.topic_id, p.index, condition) for p, condition in told
            ),
        )
        self.cluster.commit(decide_offline_replicas(state, heartbeat))
        assert not tells_news(state, heartbeat)
        for p, _ in told:
            now = self.cluster.partition(p.topic_id, p.index)
            condition = state.brokers[b].condition_of(p.topic_id, p.index)
            if now.leader == b and condition is ReplicaCondition.TRUNCATION_REFUSED:
                continue  # a leader follows nobody who could tell it to cut
            if b in now.isr:
                others = [state.brokers[o] for o in now.isr if o != b]
                assert not any(o.can_join(p.topic_id, p.index) for o in others), "it makes way"

    @rule(replicas=st.lists(st.permutations(IDS).map(lambda ids: tuple(ids[:3])), min_size=1))
    def create(self, replicas: Sequence[tuple[BrokerId, ...]]) -> None:
        self.names += 1
        try:
            self.cluster.topic(f"t{self.names}", *replicas[:3])
        except WireError:
            return

    @precondition(lambda self: len(self.cluster.state.topics) > 3)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        topic_id = data.draw(st.sampled_from(list(self.cluster.state.topics)))
        self.cluster.commit(decide_delete_topic(self.cluster.state, name="", topic_id=topic_id))

    @precondition(lambda self: any(p.leader != NO_LEADER for p in self.cluster.state.partitions()))
    @rule(data=st.data(), isr=st.lists(brokers, max_size=4), off=st.integers(-1, 1))
    def alter(self, data: st.DataObject, isr: list[BrokerId], off: int) -> None:
        led = [p for p in self.cluster.state.partitions() if p.leader != NO_LEADER]
        partition = data.draw(st.sampled_from(led))
        state = self.cluster.state
        wish = data.draw(st.sampled_from([isr, [partition.leader, *isr], list(partition.replicas)]))
        drift = data.draw(st.sampled_from([0, 0, 0, 1]))
        members = []
        for b in wish:
            known = state.brokers.get(b)
            epoch = NO_BROKER_EPOCH if known is None else BrokerEpoch(known.epoch - drift)
            members.append((b, epoch))
        proposal = Proposal(
            topic_id=partition.topic_id,
            partition=partition.index,
            leader_epoch=LeaderEpoch(partition.leader_epoch + data.draw(st.sampled_from([0, off]))),
            partition_epoch=PartitionEpoch(partition.partition_epoch + off),
            isr=tuple(members),
            leader_recovery_state=data.draw(st.sampled_from([RECOVERED, RECOVERED, RECOVERING])),
        )
        sender = state.brokers[partition.leader]
        (verdict,) = self.cluster.commit(
            decide_alter_partition(state, sender.broker_id, sender.epoch, [proposal])
        )
        now = self.cluster.partition(partition.topic_id, partition.index)
        if now == partition:
            assert verdict.error is not None or set(wish) == set(partition.isr)
            return
        assert verdict.error is None
        assert off == 0, "I-27"
        assert proposal.leader_epoch == partition.leader_epoch, "I-27"
        assert now.partition_epoch == partition.partition_epoch + 1, "I-27"
        assert partition.leader in now.isr, "I-26"
        assert sorted(now.isr) == sorted(wish)
        for b, epoch in members:
            assert state.brokers[b].eligible, "I-23"
            joins = b not in partition.isr
            assert not joins or state.brokers[b].can_join(partition.topic_id, partition.index)
            assert epoch == state.brokers[b].epoch, "P-7"

    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        recover(self.cluster, data)

    @rule(data=st.data())
    def elect(self, data: st.DataObject) -> None:
        elect(self.cluster, data)

    @rule(data=st.data())
    def balance(self, data: st.DataObject) -> None:
        balance(self.cluster, data)

    @rule(data=st.data())
    def add_partitions(self, data: st.DataObject) -> None:
        add_partitions(self.cluster, data)

    @rule(b=brokers)
    def allocate(self, b: BrokerId) -> None:
        broker = self.cluster.state.brokers.get(b)
        if broker is not None:
            start = self.cluster.commit(decide_producer_ids(self.cluster.state, b, broker.epoch))
            assert start >= self.given_ids, "I-59"
            self.given_ids = start + 1000

    @rule(data=st.data(), minimum=st.sampled_from([None, "1", "2", "3", "4"]), dry=st.booleans())
    def alter_minimum(self, data: st.DataObject, minimum: str | None, dry: bool) -> None:
        names = [None, *self.cluster.state.topic_ids]
        topic = data.draw(st.sampled_from(names))
        self.cluster.alter("", {"min.insync.replicas": minimum}, topic=topic, validate_only=dry)

    @rule(b=brokers, value=st.sampled_from([None, "1", "2"]))
    def alter_broker(self, b: BrokerId, value: str | None) -> None:
        if b in self.cluster.state.brokers:
            self.cluster.alter(str(b), {"log.roll.ms": value})

    @rule(min_insync=st.integers(1, 3))
    def controller_restarts(self, min_insync: int) -> None:
        """Only what the log holds survives, and everybody has a fresh, inherited session (P-61)."""
        cluster = self.cluster
        cluster.state = cluster.replayed()
        cluster.commit(decide_start(cluster.state, min_insync_replicas=min_insync))
        for broker in cluster.state.brokers.values():
            cluster.sessions.inherit(broker.broker_id, broker.epoch, cluster.now_ms)

    @rule()
    def all_brokers_apply_everything(self) -> None:
        """Who has left is forgotten where the minimum is in sync (I-53)."""
        self.cluster.all_apply()
        state = self.cluster.state
        for p in state.partitions():
            least = state.effective_min_isr(state.topics[p.topic_id], p)
            assert not p.last_known_elr or len(p.isr) < least

    @rule()
    def takes_a_snapshot(self) -> None:
        """Encoded later, when the state has gone on."""
        self.snapshot = take(self.cluster.state)

    # -- what must hold after each

    def on_its_disk(self, partition: PartitionRegistration, b: BrokerId) -> bool:
        return self.cluster.state.brokers[b].directory_id == partition.directory_of(b)

    @invariant()
    def isrs_are_sane(self) -> None:
        state = self.cluster.state
        for p in state.partitions():
            members = (*p.isr, *p.elr, *p.last_known_elr)
            assert set(members) <= set(p.replicas), "I-22"
            assert len(set(members)) == len(members), "I-22"
            assert p.leader in p.isr if p.isr else p.leader == NO_LEADER, "I-22"
            assert p.isr or p.elr or p.last_known_elr, "I-53: somebody is remembered"
            if len(p.isr) >= state.effective_min_isr(state.topics[p.topic_id], p):
                assert not p.elr, "I-50"
            if p.leader_recovery_state == RECOVERING:
                assert len(p.isr) <= 1, "I-49"
            assert len(p.replicas) == len(p.directories)
            assert all(state.brokers[b].eligible for b in p.isr), "I-23, P-27"
            assert all(self.on_its_disk(p, b) for b in p.isr)
            if p.leader != NO_LEADER:
                leader = state.brokers[p.leader]
                condition = leader.condition_of(p.topic_id, p.index)
                assert condition is None or condition.can_lead, "it serves nothing"

    @invariant()
    def epochs_never_go_back(self) -> None:
        state = self.cluster.state
        assert state.controller_epoch >= self.controller_epoch, "I-30"
        assert state.last_offset >= self.last_offset, "I-30"
        for b, broker in state.brokers.items():
            if b in self.brokers:
                assert broker.epoch >= self.brokers[b].epoch, "I-30"
        for p in state.partitions():
            old = self.partitions.get((p.topic_id, p.index))
            if old is None:
                continue
            assert p.leader_epoch >= old.leader_epoch, "I-30"
            assert p.partition_epoch >= old.partition_epoch, "I-30"
            if p.leader_epoch > old.leader_epoch:
                assert p.partition_epoch > old.partition_epoch, "I-30: never alone"
            if p.leader != old.leader:
                assert p.leader_epoch > old.leader_epoch, "I-3"
                # From the ELR in the very step in which the last of the ISR leaves, too.
                clean = old.isr if {*old.isr} & {*p.isr} else (*old.isr, *old.elr)
                if p.leader != NO_LEADER and p.leader not in clean:
                    assert p.leader_recovery_state == RECOVERING, "P-27, I-48"
                    assert (old.isr, old.elr, p.elr) == ((), (), ()), "I-48, I-53"
                    assert {*p.last_known_elr} <= {*old.last_known_elr} - {p.leader}, "I-53"
            if replace(p, changed_at=old.changed_at) != old:
                assert p.partition_epoch > old.partition_epoch, "every change is seen"
            minimum = state.effective_min_isr(state.topics[p.topic_id], p)
            if minimum != self.minima[p.topic_id, p.index]:
                assert p.partition_epoch > old.partition_epoch, "I-91"
        self.partitions = {(p.topic_id, p.index): p for p in state.partitions()}
        self.minima = {
            (p.topic_id, p.index): state.effective_min_isr(state.topics[p.topic_id], p)
            for p in state.partitions()
        }
        self.brokers = dict(state.brokers)
        self.controller_epoch, self.last_offset = state.controller_epoch, state.last_offset

    @invariant()
    def a_leader_counts_by_the_minimum_of_its_partition_epoch(self) -> None:
        """I-91: what the last push that replicas heard said is what the controller goes by."""
        state, cluster = self.cluster.state, self.cluster
        for envelope in cluster.envelopes[self.envelopes_heard :]:
            for topic in envelope.topics:
                for pushed in (p for p in topic.partitions if p.moved):
                    key = (topic.topic_id, pushed.partition.index)
                    epoch = pushed.partition.partition_epoch
                    self.heard[key] = (epoch, pushed.effective_min_isr)
        self.envelopes_heard = len(cluster.envelopes)
        for p in state.partitions():
            minimum = state.effective_min_isr(state.topics[p.topic_id], p)
            assert self.heard[p.topic_id, p.index] == (p.partition_epoch, minimum), "I-91"

    @invariant()
    def the_log_gives_the_same_state(self) -> None:
        assert self.cluster.replayed() == self.cluster.state

    @invariant()
    def a_snapshot_and_the_rest_of_the_log_give_the_same_state(self) -> None:
        if self.snapshot is None:
            return
        state = ControllerState()
        restore(state, list(self.snapshot.values()))
        assert state.next_offset == self.snapshot.end_offset
        for value in self.cluster.log[self.snapshot.end_offset :]:
            state.replay(decode(value), state.next_offset)
        assert same(state, self.cluster.state)

    @invariant()
    def envelopes_follow_each_other(self) -> None:
        envelopes = self.cluster.envelopes
        for earlier, later in zip(envelopes[-4:], envelopes[-3:], strict=False):
            assert later.prev_metadata_offset == earlier.metadata_offset, "P-79"
        if envelopes:
            assert envelopes[-1].metadata_offset == self.cluster.state.last_offset


TestControllerHistory = ControllerHistory.TestCase
TestControllerHistory.settings = settings(max_examples=examples(40), stateful_step_count=40)


def test_an_empty_decision_writes_nothing() -> None:
    cluster = Cluster()
    before = (list(cluster.log), len(cluster.envelopes))
    assert cluster.commit(Decision((), answer="said")) == "said"
    assert (cluster.log, len(cluster.envelopes)) == before
