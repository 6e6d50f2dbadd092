"""Common parts of `reassign` and `broker decommission`: starting moves, and watching them to the
end.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_cli.errors import CliError
from strandline_cli.planning.reassignment_plan import spread
from strandline_cli.shown.output import emit_table, listed, note

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from strandline import Admin, TopicPartition
    from strandline.types import PartitionReassignment, ReplicaInfo
    from strandline_cli.planning.reassignment_plan import Partition, Plan

LOOK_S: Final = 0.5
HEARD_S: Final = 5.0
ASK_AGAIN_S: Final = 0.05
SAY_S: Final = 2.0
"""Time between two lines of progress."""


@dataclass(frozen=True)
class Progress:
    """The progress of one partition's new replicas."""

    topic: str
    partition: int
    target: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    isr: tuple[int, ...]
    records_left: int | None
    """Records that the slowest new replica lacks; None if a replica does not answer."""

    def document(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "target": list(self.target),
            "adding": list(self.adding),
            "removing": list(self.removing),
            "isr": list(self.isr),
            "records_left": self.records_left,
        }


async def current_replicas(
    admin: Admin, topics: Collection[str] | None = None
) -> dict[Partition, tuple[int, ...]]:
    """The current replicas, or the future ones where a reassignment is under way.

    A broker and the controller are asked at different moments. For a move that ended or was
    cancelled in between, the brokers report the final replicas once they know them.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + HEARD_S
    moving = await _ongoing(admin)
    while True:
        current = await _described(admin, topics)
        now = await _ongoing(admin)
        moving |= now
        unheard = [
            at
            for at, each in moving.items()
            if at not in now and set(current.get(at, ())) == set(each.replicas)
        ]
        if not unheard or loop.time() >= deadline:
            return {at: now[at].target if at in now else to for at, to in current.items()}
        await asyncio.sleep(ASK_AGAIN_S)


async def _ongoing(admin: Admin) -> dict[Partition, PartitionReassignment]:
    ongoing = await admin.list_partition_reassignments()
    return {(at.topic, at.partition): each for at, each in ongoing.items()}


async def _described(
    admin: Admin, topics: Collection[str] | None
) -> dict[Partition, tuple[int, ...]]:
    return {
        (topic.name, partition.partition): tuple(partition.replicas)
        for topic in (await admin.describe_topics(topics, include_internal=True)).values()
        for partition in topic.partitions
    }


@dataclass(frozen=True)
class Brokers:
    """Ids with their racks."""

    known: dict[int, str]
    live: dict[int, str]
    """Brokers that accept new replicas."""


async def registered_brokers(admin: Admin) -> Brokers:
    cluster = await admin.describe_cluster()
    return Brokers(
        known={broker.id: broker.rack for broker in cluster.brokers},
        live={
            broker.id: broker.rack
            for broker in cluster.brokers
            if broker.state == "UNFENCED" and not broker.decommissioning
        },
    )


def without(leaver: int, current: Mapping[Partition, tuple[int, ...]], brokers: Brokers) -> Plan:
    """The moves that leave no replica on that broker. Raises CliError if the others cannot host
    them.
    """
    live = {b: rack for b, rack in brokers.live.items() if b != leaver}
    known = {b: rack for b, rack in brokers.known.items() if b != leaver}
    plan = spread(current, live, level=False, staying=known)
    return {key: to for key, to in plan.items() if leaver in current[key]}


def emit_moves(current: Mapping[Partition, tuple[int, ...]], plan: Plan) -> None:
    """A table on stdout with the old and new replicas of each partition in the plan."""
    rows = [
        (topic, index, listed(current.get((topic, index), ())), listed(to))
        for (topic, index), to in sorted(plan.items())
    ]
    emit_table(("topic", "partition", "from", "to"), rows)


async def alter(admin: Admin, plan: Mapping[Partition, Sequence[int] | None]) -> int:
    """Start or cancel reassignments; returns how many were accepted. Raises CliError that names the
    refused ones.
    """
    results = await admin.alter_partition_reassignments(plan)
    refused = [result for result in results if result.error is not None]
    for result in refused[1:]:
        note(f"refused: {result.error}")
    if refused:
        accepted = len(results) - len(refused)
        others = f"; {accepted} other partitions were accepted" if accepted else ""
        raise CliError(f"{refused[0].error}{others}")
    return len(results)


async def progress(admin: Admin, only: Collection[Partition] | None = None) -> list[Progress]:
    """The reassignments under way, of all partitions or of these."""
    ongoing = {
        at: each
        for at, each in (await admin.list_partition_reassignments()).items()
        if only is None or (at.topic, at.partition) in only
    }
    if not ongoing:
        return []
    replicas = await admin.describe_replicas({at.topic for at in ongoing})
    ends = {(r.topic, r.partition, r.broker): r for r in replicas}
    return [_progress(at, each, ends) for at, each in sorted(ongoing.items())]


def _progress(
    at: TopicPartition,
    ongoing: PartitionReassignment,
    ends: Mapping[tuple[str, int, int], ReplicaInfo],
) -> Progress:
    leader = ends.get((at.topic, at.partition, ongoing.leader))
    waiting = [b for b in ongoing.target if b not in ongoing.isr]
    left: int | None = 0
    for broker in waiting:
        replica = ends.get((at.topic, at.partition, broker))
        if replica is None or leader is None or left is None:
            left = None
        else:
            left = max(left, leader.log_end_offset - replica.log_end_offset)
    return Progress(
        at.topic,
        at.partition,
        ongoing.target,
        ongoing.adding,
        ongoing.removing,
        ongoing.isr,
        left,
    )


async def wait_until_done(admin: Admin, plan: Plan, limit_s: float) -> None:
    """Print the remaining work from time to time; raises CliError when the time is over.

    Brokers learn of the end a moment after the controller has decided it, so the command waits for
    them.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    say_at = loop.time() + SAY_S
    while True:
        left = await progress(admin, plan.keys())
        if not left:
            await _until_heard(admin, plan, min(deadline, loop.time() + HEARD_S))
            return
        if loop.time() >= deadline:
            raise CliError(
                f"{len(left)} of {len(plan)} partitions are not done after {limit_s:g} s, for "
                f"example {left[0].topic}:{left[0].partition}: the rest goes on; see "
                "`strandline reassign --status`"
            )
        if loop.time() >= say_at:
            say_at = loop.time() + SAY_S
            known = [each.records_left for each in left if each.records_left is not None]
            note(f"{len(left)} of {len(plan)} partitions to go, {sum(known)} records to copy")
        await asyncio.sleep(min(LOOK_S, max(0.0, deadline - loop.time())))


async def _until_heard(admin: Admin, plan: Plan, deadline: float) -> None:
    """Wait until the brokers report the new replicas. A timeout or a missing answer is no error:
    another request may have moved the replicas since, and this one is done.
    """
    from strandline.errors import StrandlineError, UnknownTopicOrPartition

    loop = asyncio.get_running_loop()
    while loop.time() < deadline:
        try:
            told = await _described(admin, {topic for topic, _ in plan})
            if all(set(told.get(at, to)) == set(to) for at, to in plan.items()):
                return
        except UnknownTopicOrPartition:
            return
        except StrandlineError:
            pass  # a broker that is starting, for instance
        await asyncio.sleep(ASK_AGAIN_S)


async def set_throttle(admin: Admin, rate: int) -> None:
    """Set the bytes a second that each broker copies for moves; 0: no limit."""
    from strandline import AlterConfigOpType, ConfigChange

    keys = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    changes = [
        ConfigChange(key, str(rate))
        if rate > 0
        else ConfigChange(key, operation=AlterConfigOpType.DELETE)
        for key in keys
    ]
    await admin.incremental_alter_configs({("broker", ""): changes})
