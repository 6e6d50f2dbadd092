"""I-9: the committed part of a partition, computed from the content of disks.

A leader may commit records that the whole ISR holds, with the minimum of replicas in it. The
controller's log has the ISR and the minimum at the leader's partition epoch, and the disks have the
records. A member that has died since counts with what it held at its death: it can have fetched for
that.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.replica.log_view import BASE
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle
    from strandline_proof.sim.oracles.controller.decided import Key
    from strandline_proof.sim.oracles.replica.log_view import Entry, LogView
    from strandline_proof.sim.oracles.replica.replica import Replica


class HeldOracle:
    def __init__(self, members: dict[int, Node], control: ControlOracle, *, always: bool) -> None:
        self._nodes = members
        self._control = control
        self._always = always
        self._lives: dict[tuple[str, int], int] = {}
        """The broker epoch of each life of each node."""
        self._kept: dict[tuple[str, Key, int], LogView] = {}
        """The log of each ended life, by its broker epoch."""

    def on_lives(self, node: Node) -> None:
        """The node's process has made a step; it has registered by then, if it has a role."""
        lifecycle = getattr(node.process, "lifecycle", None)
        if lifecycle is not None and lifecycle.broker_epoch >= 0:
            self._lives[node.name, node.incarnation] = lifecycle.broker_epoch

    def on_over(self, name: str, key: Key, life: int, view: LogView) -> None:
        """The life of the node that held this log is over, or its disk has lost some of it."""
        epoch = self._lives.get((name, life))
        if epoch is not None:
            self._kept.setdefault((name, key, epoch), view)

    def check(
        self, key: Key, partition_epoch: int, mark: int, led: Replica, known: dict[str, Replica]
    ) -> int | None:
        """The leader with the log `led`, by the decision of `partition_epoch`, commits the records
        below `mark`. `known`: the replicas of the partition, by node.

        Returns the minimum, if that many replicas are seen to hold all of it, and it is the present
        one.
        """
        at, newest = (
            self._control.decided.at(key, partition_epoch),
            self._control.decided.newest(key),
        )
        if at is None or newest is None:
            return None  # a partition of another store, or a deleted one
        where = f"{led.partition.name}, by partition epoch {partition_epoch}"
        if len(at.isr) < at.minimum:
            raise Violation(
                "I-9",
                f"{where}: committed {mark} with ISR {at.isr}, {at.minimum} are needed",
            )
        members = newest.isr
        if newest.leader_epoch != at.leader_epoch:
            members = tuple({*at.isr} & {*newest.isr, *newest.elr})
        held = 0
        for name, view, is_there in self._views(key, sorted(members), at.offset, known):
            self._check_holds(name, view, mark, led.view, where, is_there=is_there)
            held += is_there
        return at.minimum if newest.epochs == at.epochs and held >= at.minimum else None

    def is_whole(
        self, key: Key, partition_epoch: int, mark: int, led: Replica, known: dict[str, Replica]
    ) -> bool:
        """True if the whole ISR is there, with the minimum in it, and holds all below `mark`, by
        the last decision, which the leader counts by.
        """
        newest = self._control.decided.newest(key)
        if newest is None or newest.partition_epoch != partition_epoch:
            return False
        last = _last_below(led.view, mark)
        views = list(self._views(key, newest.isr, newest.offset, known))
        return len(views) == len(newest.isr) >= newest.minimum and all(
            is_there and view.end >= mark and (last is None or view.holds(last))
            for _, view, is_there in views
        )

    def _views(
        self, key: Key, members: Iterable[int], offset: int, known: dict[str, Replica]
    ) -> Iterator[tuple[str, LogView, bool]]:
        """Logs of the members, of present or ended lives, and whether they are there. Members that
        have registered since `offset` are left out: their disks may lack what they have fetched
        before.
        """
        for member in members:
            node, registered = self._nodes[member], self._control.brokers.get(member)
            if registered is None or registered.epoch > offset:
                continue
            kept = self._kept.get((node.name, key, registered.epoch))
            replica = known.get(node.name)
            if kept is not None:
                yield node.name, kept, False
            elif (
                replica is not None
                and self._lives.get((node.name, replica.incarnation)) == registered.epoch
            ):
                yield node.name, replica.view, node.running

    def _check_holds(
        self, name: str, view: LogView, mark: int, led: LogView, where: str, *, is_there: bool
    ) -> None:
        if view.end < mark:
            raise Violation(
                "I-9", f"{where}: committed {mark}, and {name}, in the ISR, ends at {view.end}"
            )
        last = _last_below(led, mark)
        if last is None or last.base < view.start:
            return
        if not view.holds(last):
            raise Violation(
                "I-9",
                f"{where}: committed {mark}, and {name}, in the ISR, does not hold offset"
                f" {last.base} of epoch {last.epoch}",
            )
        if self._always and is_there and not view.is_durable(last):
            raise Violation(
                "I-9",
                f"{where}: committed {mark} under flush.policy=always, {name} has not flushed"
                f" offset {last.base}",
            )


def _last_below(view: LogView, end: int) -> Entry | None:
    """The last entry that ends at or before `end`."""
    at = bisect_left(view.entries, end, key=BASE)
    return view.entries[at - 1] if at > 0 else None
