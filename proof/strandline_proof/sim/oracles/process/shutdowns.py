"""Stops of brokers: the clean-shutdown marker (I-52), and the controller's leave (I-84)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.directory.clean_shutdown import FILE_NAME
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import DATA, broker_id

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle
    from strandline_proof.sim.oracles.replica.applied import AppliedOracle
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle

MARKER: Final = f"{DATA}/{FILE_NAME}"


class MarkerOracle:
    def __init__(self, replicas: ReplicaOracle) -> None:
        self._replicas = replicas
        self._checked: dict[str, int] = {}
        """The life of each node whose marker was looked at when it was written."""

    def on_step(self, node: Node) -> None:
        """Checks that the marker is written after everything has been flushed."""
        if self._checked.get(node.name) == node.incarnation:
            return
        if not _has_marker(node) or not _has_served(node):
            return
        self._checked[node.name] = node.incarnation
        for key, partition in node.process.replicas.partitions.items():
            view = self._replicas.known(node, key)
            last = view.entries[-1] if view is not None and view.entries else None
            if view is not None and last is not None and not view.is_durable(last):
                raise Violation(
                    "I-52",
                    f"{node.name}: it says that it stopped in order, and has not flushed offset"
                    f" {last.base} of {partition.name}",
                )

    def on_crash(self, node: Node) -> None:
        """A process that has served removed the marker before, and durably."""
        if _has_served(node) and not node.stopping and _has_marker(node):
            raise Violation(
                "I-52", f"{node.name}: the marker of a clean shutdown is there after a crash"
            )


class LeaveOracle:
    """I-84: a broker that gets its leave leads nothing, and every live broker has learned of that.

    The leave may be under way for a while. A broker that was fenced when it was given may be back,
    and learns of it together with its other missed metadata. A stopping broker that was fenced
    itself did not have to wait for the others.
    """

    def __init__(
        self, members: dict[int, Node], control: ControlOracle, applied: AppliedOracle
    ) -> None:
        self._nodes = members
        self._applied = applied
        self._control = control
        self._checked: dict[str, int] = {}

    def on_step(self, node: Node) -> None:
        lifecycle = getattr(node.process, "lifecycle", None)
        if lifecycle is None or not lifecycle.may_stop:
            return
        if self._checked.get(node.name) == node.incarnation:
            return
        self._checked[node.name] = node.incarnation
        number, control = broker_id(node.name), self._control
        known = control.brokers.get(number)
        if known is None or known.epoch != lifecycle.broker_epoch:
            return
        led = [key[1] for key, p in control.partitions.items() if p.leader == number]
        if led:
            raise Violation("I-84", f"{node.name} is let go, and leads partitions {led}")
        since = None if known.fenced else control.decided.stopping_at(number)
        for other, broker in control.brokers.items():
            there = self._nodes.get(int(other))
            process = None if there is None or not there.running else there.process
            metadata = getattr(process, "metadata", None)
            if broker.fenced or other == number or metadata is None or since is None:
                continue
            if control.decided.unfenced_at(int(other)) > since:
                continue  # perhaps since the leave was given
            if not metadata.view.brokers:
                continue  # it has no metadata yet
            assert there is not None
            led_then = self._led(number, metadata.view, since)
            lacks = led_then or self._applied.lacks(there, since)
            if lacks:
                raise Violation(
                    "I-84",
                    f"{node.name} is let go, its leaderships moved at {since}, and broker {other}"
                    f" has not carried that out: {lacks}",
                )

    def _led(self, number: int, view: MetadataView, since: int) -> str:
        """A partition that another broker's metadata still shows as led by the broker, though it
        did not lead it any more by the record at `since`.
        """
        led = []
        for topic in view.topics_by_id.values():
            for partition in topic.partitions.values():
                key = topic.topic_id, partition.partition
                decided = self._control.decided.as_of(key, since)
                if partition.leader == number and decided and decided.leader != number:
                    led.append((topic.name, partition.partition))
        return f"it says that broker {number} leads {led}" if led else ""


def _has_served(node: Node) -> bool:
    return bool(getattr(node.process, "is_loaded", False))


def _has_marker(node: Node) -> bool:
    try:
        node.disk.find(MARKER)
    except OSError:
        return False
    return True
