"""All coordinators of a run.

After each step of a broker its replicas of `__consumer_offsets` are read from its disk. Every
decision is judged, its shards are compared with their logs, and the step's answers are judged by
them. Where committed records may be missing (I-54), nothing is required of committed state any
more. A coordinator's answers must fit its own log all the same.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_proof.sim.oracles.groups.calls import METHODS, Overheard
from strandline_proof.sim.oracles.groups.classic import check_classic
from strandline_proof.sim.oracles.groups.conversation import Epochs
from strandline_proof.sim.oracles.groups.decisions import check_step, coordinating_partition
from strandline_proof.sim.oracles.groups.fold import NOTHING, Fold, Group, GroupLog
from strandline_proof.sim.oracles.groups.positions import Positions
from strandline_proof.sim.oracles.groups.registers import Written, check_registers
from strandline_proof.sim.oracles.groups.removals import Removals
from strandline_proof.sim.oracles.groups.said import NONE_COMMITTED
from strandline_proof.sim.oracles.groups.shards import (
    check_fold,
    check_gone,
    check_may_serve,
    check_timers,
    classic_groups,
)
from strandline_proof.sim.oracles.groups.standing import Standing
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import broker_config
from strandline_proof.sim.workload.group_history import Committed
from strandline_proto.ids import topic_id_bytes, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_broker.hosts.replica.partition import Partition as Replica
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.groups.fold import Place, Step
    from strandline_proof.sim.oracles.groups.removals import Word
    from strandline_proof.sim.oracles.groups.said import CommitWish, Said
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle
    from strandline_proof.sim.workload.group_history import GroupHistory, Partition, Told

EVERY: Final = 16
"""Steps between two looks at state that changes without the log."""
ACTIVE: Final = "ACTIVE"
INACTIVE: Final = "INACTIVE"


@dataclass(slots=True)
class Seat:
    """One replica of a partition of `__consumer_offsets`, and its shard if it leads."""

    standing: Standing = field(default_factory=Standing)
    is_known: bool = True
    """True if its log was read from the first offset on."""
    leader: Any = None
    begun: int = 0
    """The end of its log when its leadership began."""
    serves: Any = None
    """The leadership in which its shard serves."""
    folded: int = -1
    """The log end at which its state was compared."""
    removals: Removals | None = None
    early: list[Word] = field(default_factory=list)
    """Messages of members that it read before it served."""
    life: int = -1
    """The last process that has served."""
    generations: dict[tuple[str, str], int] = field(default_factory=dict)
    """Stream generations of members, as that process has them."""


class Coordinators:
    def __init__(self, world: World, control: ControlOracle, replicas: ReplicaOracle) -> None:
        self.written: defaultdict[tuple[str, Partition], list[Written]] = defaultdict(list)
        """The committed values of each register."""
        self._by_deposed: defaultdict[tuple[str, Partition], list[Written]] = defaultdict(list)
        """Values that deposed coordinators have returned."""
        self._world = world
        self._control = control
        self._replicas = replicas
        config: Any = broker_config(world.topology, world.topology.broker_names[0])
        self._session_s = config.group_consumer_session_timeout_ms / 1000
        self._seats: dict[tuple[str, Key], Seat] = {}
        self._logs: dict[Key, GroupLog] = {}
        self._ids: defaultdict[str, set[str]] = defaultdict(set)
        self._folds: dict[int, Fold] = {}
        """The committed fold, by partition of the topic."""
        self._ends: defaultdict[int, int] = defaultdict(int)
        self._epochs: defaultdict[tuple[str, str, str], Epochs] = defaultdict(Epochs)
        """Epochs by broker, group and member."""
        self._said: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self._positions = Positions(self)
        self._turn = 0
        self._history: GroupHistory | None = None
        if world.topology.offsets_partitions > 0:
            self._history = world.groups.history
            self._history.on_told = self._on_told

    # Requests and answers

    def overhear(self, node: str, name: str) -> Overheard | None:
        if self._history is None or name not in METHODS:
            return None
        return Overheard(self, node, name)

    def later(self, node: str, judge: Callable[[], None]) -> None:
        """Judges once the present step of that node is over."""
        self._said[node].append(judge)

    def _on_told(self, told: Told) -> None:
        self._judge(lambda: self._positions.on_told(told))

    def _judge(self, judge: Callable[[], None]) -> None:
        """Judges in the middle of a step, whose own code may not catch a violation."""
        try:
            judge()
        except Violation as violation:
            self._world.loop.fail(violation)

    def on_commit(self, node: str, wish: CommitWish) -> None:
        is_deposed = self.is_deposed(node, wish.who.group_id)
        names = {topic_id: name for name, ids in self._ids.items() for topic_id in ids}
        for (topic_id, partition), said in wish.offsets.items():
            at = names.get(topic_id, ""), partition
            check = partial(self._positions.check_commit, is_deposed=is_deposed)
            self._judge(partial(check, wish.who.member_id, at, said[0]))

    def is_deposed(self, node: str, group_id: str) -> bool:
        """True if the group's coordinator is another one now, whether or not the node has learned
        it.
        """
        replica, key = self._replica(node, group_id), self._key(group_id)
        decided = None if key is None else self._control.partitions.get(key)
        if replica is None or decided is None:
            return False
        leader = replica.leader
        return leader is None or leader.leader_epoch < decided.leader_epoch

    def on_told_by_deposed(self, group_id: str, offsets: Mapping[Place, Said]) -> None:
        names = {topic_id: name for name, ids in self._ids.items() for topic_id in ids}
        for (topic_id, partition), (offset, epoch, metadata) in offsets.items():
            value = None if offset == NONE_COMMITTED else Committed(offset, epoch, metadata)
            register = group_id, (names.get(topic_id, ""), partition)
            self._by_deposed[register].append(Written(value, self._world.loop.now))

    def on_fenced(self, member_id: str) -> None:
        """A member receives the answer that it is no member, or not in its epoch."""
        self._positions.on_over(member_id)

    def heard(self, node: str, word: Word) -> None:
        seat = self.seat(node, word.name[0])
        if seat is None:
            return
        incarnation = self._world.nodes[node].incarnation
        if seat.removals is None or seat.serves[0] != incarnation:
            seat.early.append(word)
        else:
            seat.removals.on_heard(word)

    def on_removal_asked(self, node: str, group_id: str) -> None:
        seat = self.seat(node, group_id)
        if seat is not None and seat.removals is not None:
            seat.removals.on_removal_asked(group_id)

    # Places of groups

    def topic_ids(self) -> dict[str, str]:
        state = self._control.state
        return {} if state is None else {n: topic_id_text(t) for n, t in state.topic_ids.items()}

    def _partitions(self) -> int:
        return self._world.topology.offsets_partitions

    def _key(self, group_id: str) -> Key | None:
        state = self._control.state
        topic_id = None if state is None else state.topic_ids.get(CONSUMER_OFFSETS)
        if topic_id is None:
            return None
        return topic_id, coordinating_partition(group_id, self._partitions())

    def seat(self, node: str, group_id: str) -> Seat | None:
        key = self._key(group_id)
        return None if key is None else self._seats.get((node, key))

    def _replica(self, node: str, group_id: str) -> Replica | None:
        process, key = self._world.nodes[node].process, self._key(group_id)
        replicas = getattr(process, "replicas", None)
        found: Replica | None = None if replicas is None else replicas.partitions.get(key)
        return found

    def log_end(self, node: str, group_id: str) -> int:
        replica = self._replica(node, group_id)
        return 0 if replica is None else replica.log.log_end_offset

    def high_watermark(self, node: str, group_id: str) -> int:
        replica = self._replica(node, group_id)
        return 0 if replica is None else replica.high_watermark

    def floor(self, node: str, group_id: str) -> int:
        """The end of the log that an answer to a present request must include: at the leader,
        everything that is committed.
        """
        replica, key = self._replica(node, group_id), self._key(group_id)
        if replica is None or key is None:
            return 0
        decided, leader = self._control.partitions.get(key), replica.leader
        leads = decided and leader and decided.leader_epoch == leader.leader_epoch
        ghost = self._replicas.ghost(key)
        if not leads or ghost.excused is not None or ghost.lost:
            return replica.high_watermark
        return max(replica.high_watermark, ghost.end)

    def epochs(self, node: str, group_id: str, member_id: str) -> Epochs:
        return self._epochs[node, group_id, member_id]

    # Queries of positions

    def group(self, group_id: str) -> Group:
        partition = coordinating_partition(group_id, self._partitions())
        return self._folds.get(partition, NOTHING).group(group_id)

    def is_judged(self, group_id: str) -> bool:
        key = self._key(group_id)
        if key is None:
            return False
        ghost = self._replicas.ghost(key)
        return ghost.excused is None and not ghost.lost and not ghost.given_up

    def place(self, partition: Partition) -> Place | None:
        topic_id = self.topic_ids().get(partition[0])
        return None if topic_id is None else (topic_id, partition[1])

    def offset(self, group_id: str, partition: Partition) -> int | None:
        place, fold = (
            self.place(partition),
            self._folds.get(coordinating_partition(group_id, self._partitions()), NOTHING),
        )
        for key, value in fold.offsets.items():
            if (key.group, value.topic_id, key.partition) == (group_id, *(place or ("", -1))):
                return value.offset
        return None

    def may_skip(self, partition: Partition, begin: int, end: int) -> bool:
        place = self.place(partition)
        if place is None:
            return True
        ghost = self._replicas.ghost((topic_id_bytes(place[0]), place[1]))
        if ghost.excused is not None or ghost.lost or ghost.given_up:
            return True
        return end <= ghost.begins

    # Steps of brokers

    def on_look(self, node: Node, key: Key, replica: Replica) -> None:
        """A replica of the topic has changed."""
        seat = self._seats.setdefault((node.name, key), Seat())
        leader = replica.leader
        if leader is not None and leader is not seat.leader:
            seat.begun = replica.log.log_end_offset
        seat.leader = leader
        standing = seat.standing
        before = len(standing.steps)
        standing.high_watermark, standing.leads = replica.high_watermark, leader is not None
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = GroupLog(lambda step: self._on_decision(key[1], step))
        view = self._replicas.view(node.name, key)
        seat.is_known = standing.follow(log, view)
        if leader is None or not seat.is_known:
            return
        if seat.removals is not None:
            for step in standing.steps[before:]:
                seat.removals.on_decided(step)
                self._forget_removed(node.name, step)
        self._on_committed(key, standing)

    def _forget_removed(self, node: str, step: Step) -> None:
        """Forgets removed members: what they received was sent to other members, even if these come
        back.
        """
        for group_id in step.decision.groups:
            before, after = step.before.group(group_id), step.after.group(group_id)
            for member_id in before.members.keys() - after.members.keys():
                self._epochs[node, group_id, member_id].clear()

    def _on_decision(self, partition: int, step: Step) -> None:
        state = self._control.state
        for name, topic_id in {} if state is None else state.topic_ids.items():
            self._ids[name].add(topic_id_text(topic_id))
        check_step(step, partition, self._partitions(), self._ids)

    def _on_committed(self, key: Key, standing: Standing) -> None:
        ghost = self._replicas.ghost(key)
        if ghost.excused is not None or ghost.lost:
            return
        for step in standing.since(self._ends[key[1]]):
            self._ends[key[1]] = step.decision.end
            self._folds[key[1]] = step.after
            self._positions.check_step(step)
            for record in step.decision.records:
                if record.kind == "offset_commit":
                    self._note_written(record.key, record.value)

    def _note_written(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if key["topic"] == "" and value is None:
            self._world.groups.sometimes["coordinator proved by a write that it leads"] += 1
            return
        committed = None
        if value is not None:
            epoch = value.get("leader_epoch", -1)
            committed = Committed(value["offset"], epoch, value["metadata"])
        register = key["group"], (key["topic"], key["partition"])
        self.written[register].append(Written(committed, self._world.loop.now))

    def on_step(self, node: Node) -> None:
        """A broker has done a step, and its replicas have been looked at."""
        self._turn += 1
        for host in node.process.shards.hosts():
            seat = self._seats.get((node.name, host.partition.key))
            if seat is not None and seat.is_known:
                self._check_host(node, host, seat)
        said = self._said[node.name]
        while said:
            said.popleft()()

    def _check_host(self, node: Node, host: ShardHost[GroupShard], seat: Seat) -> None:
        where, state = f"{node.name} {host.name}", host.machine.state.name
        if state != ACTIVE:
            if seat.removals is not None:
                self._forget_told(node.name, host.partition.key)
            seat.serves = seat.removals = None
            seat.folded = -1
            if state == INACTIVE and self._turn % EVERY == 0:
                check_gone(where, host)
            return
        replica, leader = host.partition, host.partition.leader
        now_s = self._world.loop.now
        if seat.serves != (node.incarnation, host.machine.epoch) or seat.removals is None:
            self._forget_told(node.name, replica.key)
            seat.serves = node.incarnation, host.machine.epoch
            if seat.life != node.incarnation:
                seat.life, seat.generations = node.incarnation, {}
            seat.removals = Removals(where, self._session_s, now_s, seat.generations)
            for word in seat.early:
                seat.removals.on_heard(word)
            seat.early.clear()
        check_may_serve(
            where,
            leads=leader is not None,
            epochs_agree=leader is not None and leader.leader_epoch == host.machine.epoch,
            mark=replica.high_watermark,
            begun=seat.begun,
        )
        is_able = leader is not None and self._may_write(replica, node)
        seat.removals.on_time(now_s, is_able=is_able)
        end = replica.log.log_end_offset
        if seat.folded != end:
            seat.folded = end
            check_fold(where, seat.standing.written, host.application.groups.table)
        elif self._turn % EVERY:
            return
        shard, written = host.application, seat.standing.written
        classic = classic_groups(shard.groups.table)
        check_timers(where, written, shard.timers(), classic)
        records = shard.groups.table.classic
        check_classic(where, written.classic, records, classic, waiting=shard.calls.numbers)
        seat.removals.check_silence(seat.standing.written)

    def _forget_told(self, node: str, key: Key) -> None:
        """Forgets what an ended leadership has sent: it is not in the log."""
        for (where, group_id, _), epochs in self._epochs.items():
            if where == node and self._key(group_id) == key:
                epochs.clear()

    def _may_write(self, replica: Replica, node: Node) -> bool:
        decided = self._control.partitions.get(replica.key)
        full = node.disk.counts.get("disk full")
        leader = replica.leader
        return (
            decided is not None
            and not full
            and (
                leader is None or leader.leader_epoch == decided.leader_epoch
            )  # otherwise the leadership is over
            and (len(decided.isr) >= self._control.min_insync(decided))
        )

    # The end

    def check_end(self) -> int:
        """Checks the registers and returns the number of judged answers to clients."""
        if self._history is None:
            return 0
        written = dict(self.written)
        judged = [told for told in self._history.told if self._is_judged(told)]
        return check_registers(judged, written, dict(self._by_deposed))

    def _is_judged(self, told: Told) -> bool:
        group: str | None = getattr(told.event, "group", None)
        return group is None or self.is_judged(group)
