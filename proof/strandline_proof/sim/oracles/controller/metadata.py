"""Brokers' metadata: equal at equal offsets of the controller's log, never older than before (I-81,
I-30), and without replicas that are not assigned (I-87).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import broker_id

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_proof.sim.cluster.node import Node


class MetadataOracle:
    def __init__(self, sometimes: Counter[str]) -> None:
        self._sometimes = sometimes
        self._seen: dict[str, tuple[int, MetadataView]] = {}
        """The life of each node, and its last metadata."""
        self._views: dict[int, tuple[str, Any]] = {}
        """The first node with the metadata of each offset, and that metadata."""

    def on_step(self, node: Node) -> None:
        metadata = getattr(node.process, "metadata", None)
        if metadata is None:
            return
        view, seen = metadata.view, self._seen.get(node.name)
        if seen is not None and seen[1] is view:
            return
        self._seen[node.name] = node.incarnation, view
        if view.metadata_offset < 0:
            return
        if seen is not None and seen[0] == node.incarnation:
            if view.metadata_offset < seen[1].metadata_offset:
                raise Violation(
                    "I-30",
                    f"{node.name}: the metadata offset that it has applied fell from"
                    f" {seen[1].metadata_offset} to {view.metadata_offset}",
                )
            if seen[1].metadata_offset >= 0 and view.metadata_offset == seen[1].metadata_offset:
                self._sometimes["snapshot of what was known already"] += 1
        self._check_same(node, view)
        self._check_strays(node, view)

    def _check_same(self, node: Node, view: MetadataView) -> None:
        """I-81."""
        says = (dict(view.brokers), {t: _topic(topic) for t, topic in view.topics_by_id.items()})
        first, known = self._views.setdefault(view.metadata_offset, (node.name, says))
        if known != says:
            raise Violation(
                "I-81",
                f"{node.name} and {first} have both applied metadata offset"
                f" {view.metadata_offset}, and know different things: {says} and {known}",
            )

    def _check_strays(self, node: Node, view: MetadataView) -> None:
        """I-87."""
        me = broker_id(node.name)
        for topic_id, index in node.process.replicas.partitions:
            told = view.partition(topic_id, index)
            if told is None or me not in told.replicas:
                raise Violation(
                    "I-87",
                    f"{node.name}: it holds partition {index} of a topic, which is not assigned to"
                    f" it at metadata offset {view.metadata_offset}",
                )


def _topic(topic: Any) -> Any:
    return topic.name, dict(topic.partitions), dict(topic.configs)
