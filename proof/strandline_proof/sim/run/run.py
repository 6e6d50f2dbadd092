"""One run of one plan: chaos, healing, liveness, a last reading, and a verdict.

Oracles follow every step; the first contradiction ends the run.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_chaos.checkers import CheckResult, check
from strandline_chaos.excused import without
from strandline_chaos.workload import FinalReadIncomplete
from strandline_proof.sim.cluster.world import World
from strandline_proof.sim.kinds.admin import ADDING, COMMANDS
from strandline_proof.sim.loop.guard import guarded
from strandline_proof.sim.loop.loop import Deadlock, Livelock
from strandline_proof.sim.oracles.process.leaks import left_behind
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.oracles.watch import Oracles
from strandline_proof.sim.plan.check import REBALANCE
from strandline_proof.sim.plan.faults import Nemesis
from strandline_proof.sim.plan.transaction_moments import DECISION
from strandline_proof.sim.run.all_but_one import Core
from strandline_proof.sim.run.last_look import LastLook
from strandline_proof.sim.run.last_transactions import LastTransactions
from strandline_proof.sim.run.operator import Operator, waits_for_a_lost_disk
from strandline_proof.sim.run.result import RunResult
from strandline_proof.sim.run.share import counted
from strandline_proof.sim.topology.topology import (
    COMMITTER,
    GROUP_ADMIN,
    LOOSE,
    METADATA_MAX_AGE_MS_ADDED,
    READER,
    SEEKER,
    WRITER,
)
from strandline_proof.sim.workload.clients import WRITERS, workload
from strandline_proof.sim.workload.seeker_check import check_sought
from strandline_proof.sim.workload.work_clients import sequences_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_chaos.history import Event
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.plan.plan import Plan
    from strandline_runtime.runtime import Runtime

__all__ = ["Run", "RunResult", "run_plan"]

BALANCED_MAX: Final = 10  # partitions of which each is a tenth: as much may stay unbalanced
LIVENESS_S: Final = 30.0
"""Simulated time after healing within which everything must be well."""
LOOK_S: Final = 0.1
NEW_RECORDS: Final = 10
READ_BACK_S: Final = 20.0
AUDITOR: Final = "auditor"
SENDING: Final = ("resend", "hostile-batch")
"""Faults that send records as producers do."""


class Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed, plan.topology)
        if any(f.kind in ADDING for f in plan.faults):
            self.world.metadata_max_age_ms = METADATA_MAX_AGE_MS_ADDED
        self.oracles = Oracles(self.world)
        self.oracles.control.commanded = any(f.kind in COMMANDS for f in plan.faults)
        self.nemesis = Nemesis(self.world, self.oracles)
        self.oracles.control.on_event = self.nemesis.on_event
        self.oracles.transactions.on_decision = partial(self.nemesis.on_event, DECISION)
        self.world.groups.on_rebalance = partial(self.nemesis.on_event, REBALANCE)
        self.world.clients.loose.leader_epoch = self._loose_epoch
        self.replicas = LastLook(self.world, self.oracles)
        self.transactions = LastTransactions(self.world, self.oracles, self._until, self._stop)
        self.operator = Operator(self.nemesis.scene)
        self.verdict: CheckResult | None = None

    def execute(self) -> RunResult:
        """Runs to the end or to the first contradiction."""
        try:
            with sequences_from(self.plan.topology.work.first_sequence):
                return self._execute()
        finally:
            # However the run ends, by Ctrl-C too: Python would complain at length of tasks that are
            # dropped unfinished or not begun.
            self.world.close()

    def _execute(self) -> RunResult:
        result, loop = RunResult(self.plan), self.world.loop
        try:
            with guarded():
                loop.run(self._main())
            self._check_uncaught()
        except (AssertionError, Deadlock, Livelock) as failure:
            result.failure = failure
        result.digest, result.steps = loop.digest(), loop.steps
        result.simulated_s = loop.now
        result.struck = self.nemesis.struck
        result.unprompted = self.nemesis.unprompted
        result.sometimes = self._sometimes()
        if self.verdict is not None:
            result.acknowledged = self.verdict.acknowledged
            result.measures = self.verdict.measures
        result.timeline = self.world.timeline
        return result

    def _sometimes(self) -> Counter[str]:
        found = Counter(self.oracles.sometimes)
        found.update(self.world.groups.sometimes)
        found.update(self.world.clients.sometimes)
        found.update(self.world.ledger.sometimes)
        for node in self.world.nodes.values():
            found.update(node.disk.counts)
        found.update(self.world.timeline.told())
        for method, count in self.world.network.echoer.counts.items():
            found[f"arrived twice: {method}"] += count
        found["stream given up came late"] += self.world.network.late_streams
        found.update(counted(self.oracles.excused().values()))
        return found

    def _check_uncaught(self) -> None:
        for told in self.world.loop.uncaught:
            error = told.get("exception")
            raise Violation("uncaught", f"{told.get('message')}: {error!r}") from error

    async def _main(self) -> None:
        world = self.world
        self.nemesis.start(self.plan)
        for node in list(world.nodes.values()):
            node.start()
        await asyncio.sleep(self.plan.chaos_s)
        self.nemesis.heal()
        healed = len(world.history.events)
        if self.plan.away:
            core = Core(world, self.oracles, self.plan.away, unseen=self.plan.unseen)
            await self._until(core.problem, f"the core is not well without {self.plan.away}")
            core.done()
        before = self.oracles.history.acknowledged
        await self._until(
            lambda: self._unwell() or self._too_few(before), "the cluster is not well again"
        )
        await self._until(world.groups.unsettled, "a group is not settled")
        if self.plan.topology.work.lasting:
            await self._end_lasting(healed)
        await self._stop(WRITER, READER)
        if self.plan.topology.groups:
            await self._end_groups()
        await self._end_more()
        await self._end_churn()
        if self.plan.topology.transactions is not None:
            await self.transactions.end()
        await self._until(self.replicas.unlevel, "the replicas are not level")
        self.replicas.check_equal_logs()
        await self.replicas.check_losses()
        await self._read_back()
        await self._until(partial(left_behind, world, self.plan.seed), "a server keeps", "I-182")
        self.transactions.check()
        self._check_history()

    async def _stop(self, *names: str) -> None:
        nodes = self.world.nodes
        for name in names:
            nodes[name].stop()
        await self._until(
            lambda: ", ".join(n for n in names if nodes[n].running), "a client does not stop"
        )

    async def _end_lasting(self, healed: int) -> None:
        """The same clients have gone on since healing: no new client is needed."""
        world = self.world
        if self.plan.topology.groups:
            await self._stop(GROUP_ADMIN, COMMITTER)
            world.groups.catches_up = True
            ends = self._readable()
            await self._until(
                lambda: world.groups.owners_behind(ends), "a member of a group does not go on"
            )
        partitions = [p for p in range(world.partitions) if not self.oracles.given_up(p)]

        def writers_behind() -> str:
            work = world.nodes[WRITER].process
            if work is None:
                return "the writer is not there"
            return world.clients.writers_behind(
                healed, partitions, [work.writing.get(number) for number in range(WRITERS)]
            )

        await self._until(writers_behind, "a writer does not go on")
        await self._stop(WRITER)
        await self._until(
            lambda: world.clients.reader_behind(self._readable()), "the reader is not at the end"
        )

    async def _end_groups(self) -> None:
        """Writing is over: the groups' present members read to the end, and leave."""
        groups, topology = self.world.groups, self.plan.topology
        groups.catches_up = True
        await self._stop(GROUP_ADMIN, COMMITTER)
        await self._until(
            lambda: groups.unsettled() or groups.behind(self._readable()),
            "a group is not at the end",
        )
        groups.over = True
        await self._stop(*topology.member_names)

    async def _end_more(self) -> None:
        work = self.plan.topology.work
        if work.seeker:
            await self._stop(SEEKER)
        if work.loose:
            await self._stop(LOOSE)
            self._check_loose()

    def _check_loose(self) -> None:
        for key in self.oracles.control.keys_of(LOOSE):
            ghost = self.oracles.replicas.ghost(key)
            self.world.clients.loose.check_end(
                excused=bool(ghost.excused or ghost.lost or ghost.given_up)
            )

    def _loose_epoch(self) -> int:
        control = self.oracles.control
        return next((control.partitions[key].leader_epoch for key in control.keys_of(LOOSE)), -1)

    def _readable(self) -> dict[int, tuple[int, int]]:
        """The first offset and the end of each partition in which nothing may be missing."""
        return {
            ghost.index: (ghost.begins, ghost.end)
            for key in self.oracles.control.main_keys()
            for ghost in [self.oracles.replicas.ghost(key)]
            if ghost.permitted is None and not ghost.lost
        }

    async def _end_churn(self) -> None:
        for name, clients in self.nemesis.scene.beside().items():
            clients.finish()
            await self._until(partial(self._running, name), "a client does not stop")
            if self.world.nodes[name].exits:
                raise Violation("I-88", "; ".join(self.world.nodes[name].exits))

    def _running(self, name: str) -> str:
        return name if self.world.nodes[name].running else ""

    async def _until(self, problem: Callable[[], str], what: str, rule: str = "I-88") -> None:
        """Waits until there is no problem left. Raises a violation if there is one for too long."""
        deadline_s = self.world.loop.now + LIVENESS_S
        while (why := problem()) != "":
            self._check_uncaught()
            if self.world.loop.now > deadline_s:
                raise Violation(rule, f"{what} {LIVENESS_S:.0f} s after healing: {why}")
            await asyncio.sleep(LOOK_S)

    def _too_few(self, before: int) -> str:
        if all(map(self.oracles.given_up, range(self.world.partitions))):
            return ""
        new = self.oracles.history.acknowledged - before
        return "" if new >= NEW_RECORDS else f"only {new} new records were acknowledged"

    def _unwell(self) -> str:
        """The first requirement at the end that is not met, of servers and of the controller's
        state.
        """
        topology, control = self.plan.topology, self.oracles.control
        for node in (self.world.controller, *self.world.brokers):
            if not node.running:
                return f"{node.name} is down"
        if len(control.partitions) < topology.partitions:
            return f"{len(control.partitions)} partitions exist"
        for number, broker in sorted(control.brokers.items()):
            if broker.fenced:
                return f"broker {number} is fenced"
        return self._unwell_partition()

    def _unwell_partition(self) -> str:
        partitions = self.oracles.control.partitions
        balanced = self.plan.topology.balance_s < LIVENESS_S and len(partitions) <= BALANCED_MAX
        for key, partition in partitions.items():
            index = key[1]
            if self.oracles.replicas.ghost(key).given_up:
                continue
            if partition.leader < 0:
                if waits_for_a_lost_disk(self.oracles.control, partition):
                    self.operator.elect(partition)
                return f"partition {index} has no leader"
            if partition.original:
                return f"partition {index} is on the way to {partition.target}: {partition.isr}"
            if len(partition.isr) < len(partition.replicas):
                return f"partition {index} has ISR {partition.isr} of {partition.replicas}"
            if balanced and partition.leader != partition.replicas[0]:
                return f"partition {index} is led by {partition.leader} of {partition.replicas}"
        return ""

    async def _read_back(self) -> None:
        """Reads everything back, by a client on an undisturbed machine of its own."""
        failures: list[str] = []
        partitions = range(self.world.partitions)
        keys = [p for p in partitions if not self.oracles.given_up(p)]
        if not keys:
            return

        async def audit(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            work = workload(self.world, runtime, writers=0, readers=0, keys=keys)
            try:
                await work.read_back(READ_BACK_S)
            except FinalReadIncomplete as why:
                failures.append(str(why))

        node = self.world.add_node(AUDITOR, audit)
        node.start()
        await self._until(lambda: AUDITOR if node.running else "", "a client does not stop")
        if failures or node.exits:
            raise Violation("I-88", "; ".join([*failures, *node.exits]))

    def _check_history(self) -> None:
        self.oracles.groups.check_end()
        excused = self.oracles.excused()
        events = without(self.world.history.events, excused)
        self.verdict = verdict = check(events)
        clients = self.world.clients
        not_judged = [p for p in range(self.world.partitions) if not clients.is_judged(p)]
        failed = {e.value[0][1] for e in events if e.f == "send" and e.type in ("info", "fail")}
        if not any(f.kind in SENDING for f in self.plan.faults):
            self.replicas.check_epochs({*failed, *_unanswered(events), *not_judged})
        check_sought(
            clients.seeker,
            events,
            excused=not_judged,
            removed=clients.removed,
            stamps=self.world.stamps,
        )
        found = dict(verdict.anomalies)
        if excused:  # records may be missing there, but no record may be there that was never sent
            found["phantom"] = check(self.world.history.events).anomalies["phantom"]
        for name, anomaly in found.items():
            if anomaly.count:
                raise Violation("history", f"{anomaly.count} {name}: {anomaly.examples[0]}")
        # Besides the excused partitions there may be new ones without any record yet.
        if not verdict.sound and not excused:
            raise Violation("history", "nothing was acknowledged or read back")


def _unanswered(events: Iterable[Event]) -> set[int]:
    """Partitions of which a sender died before all its sends were answered."""
    sends = [event for event in events if event.f == "send"]
    done = {event.op for event in sends if event.type != "invoke"}
    return {event.value[0][1] for event in sends if event.op not in done}


def run_plan(plan: Plan) -> RunResult:
    """Runs one plan. The caller collects garbage: collecting a half-closed world is slow."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return Run(plan).execute()
    finally:
        if collects:
            gc.enable()
