"""The clean-shutdown marker of every broker: I-52."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.clean_shutdown import FILE_NAME
from strandline_chaos.sim.oracles.violation import Violation
from strandline_chaos.sim.topology import DATA

if TYPE_CHECKING:
    from strandline_chaos.sim.node import Node
    from strandline_chaos.sim.oracles.replicas import ReplicaOracle

MARKER: Final = f"{DATA}/{FILE_NAME}"


class MarkerOracle:
    def __init__(self, replicas: ReplicaOracle) -> None:
        self._replicas = replicas
        self._checked: dict[str, int] = {}
        """The life of each node whose marker was looked at when it was written."""

    def on_step(self, node: Node) -> None:
        """It is written after everything has been flushed."""
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


def _has_served(node: Node) -> bool:
    return bool(getattr(node.process, "is_loaded", False))


def _has_marker(node: Node) -> bool:
    try:
        node.disk.find(MARKER)
    except OSError:
        return False
    return True
