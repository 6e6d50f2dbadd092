"""Brokers that the controller must not fence (I-94).

They are a broker that sends heartbeats and keeps applying pushes, and one that a single replica
holds up. A heartbeat counts here when it arrives, as at the controller. A fencing is judged when it
is decided: a heartbeat that arrives while it is written comes too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.log.records import BrokerRegistrationChangeRecord
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
    from strandline_broker.core.controller.log.records import AnyRecord
    from strandline_broker.hosts.controller.controller import Controller
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.loop.loop import SimLoop
    from strandline_proof.sim.oracles.controller.control import ControlOracle

RECENT_S: Final = 0.4
"""Well within a session, even within a shortened one, on clocks that differ by a fifth."""


@dataclass(slots=True)
class _Heard:
    """Heartbeats of one incarnation."""

    last: Heartbeat
    at_s: float
    rose_s: float
    """The time at which the number of applied partitions rose last."""


class FencingOracle:
    def __init__(self, members: Mapping[int, Node], control: ControlOracle, loop: SimLoop) -> None:
        self._nodes = members
        self._control = control
        self._loop = loop
        self._heard: dict[int, _Heard] = {}
        self._pending: Sequence[AnyRecord] = ()
        self._judged: dict[int, int] = {}
        """The broker epoch in which the fencing of each broker was judged at its decision."""
        self.held: dict[int, str] = {}
        """Brokers that only one replica holds up, and that replica."""

    def on_step(self, controller: Controller) -> None:
        """Judges fencings before the control oracle looks: its brokers are the earlier ones."""
        for number, broker in controller.state.brokers.items():
            told = controller.told.get(number)
            if told is not None and told.broker_epoch == broker.epoch:
                self._on_heartbeat(int(number), told)
            before = self._control.brokers.get(number)
            if before is None or before.epoch != broker.epoch:
                continue
            if broker.fenced and not before.fenced:
                self._on_committed(int(number), broker.epoch)
        pending = controller._pipeline.pending
        if pending is not self._pending:
            self._pending = pending
            self._on_decided()

    def _on_committed(self, number: int, epoch: int) -> None:
        if self._judged.pop(number, None) != epoch:
            self._on_fenced(number, epoch)

    def _on_decided(self) -> None:
        for record in self._pending:
            if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced:
                self._judged[int(record.broker_id)] = record.broker_epoch
                self._on_fenced(int(record.broker_id), record.broker_epoch)

    def _on_heartbeat(self, number: int, told: Heartbeat) -> None:
        known, now_s = self._heard.get(number), self._loop.now
        if known is None or known.last.broker_epoch != told.broker_epoch:
            self._heard[number] = _Heard(told, now_s, -RECENT_S)
        elif known.last is not told:
            rose = told.applied_partitions > known.last.applied_partitions
            self._heard[number] = _Heard(told, now_s, now_s if rose else known.rose_s)

    def _on_fenced(self, number: int, epoch: int) -> None:
        node, heard = self._nodes[number], self._heard.get(number)
        lifecycle = getattr(node.process, "lifecycle", None)
        if heard is None or heard.last.broker_epoch != epoch or lifecycle is None:
            return
        if not node.running or node.stopping or lifecycle.broker_epoch != epoch:
            return  # its process is gone, or about to be
        now_s = self._loop.now
        if heard.last.want_fence or now_s - heard.at_s > RECENT_S:
            return
        if now_s - heard.rose_s < RECENT_S:
            raise Violation(
                "I-94",
                f"broker {number} is fenced, was heard {now_s - heard.at_s:.3f} s ago, and had"
                f" applied more partitions {now_s - heard.rose_s:.3f} s ago",
            )
        if number in self.held:
            raise Violation(
                "I-94", f"broker {number} is fenced for one replica alone: {self.held[number]}"
            )
