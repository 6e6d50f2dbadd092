"""Faults of partitions: a sentence for each, or one sentence for all that have the same fault."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_cli.shown.conditions import condition_texts
from strandline_cli.shown.partitions import partition_text, partitions_text

if TYPE_CHECKING:
    from strandline_proto.v1.metadata_pb2 import MetadataResponse, PartitionMetadata


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one partition, in words that several partitions can share."""

    topic: str
    partition: int
    text: str
    """The whole sentence about this partition."""
    shared: str
    """The end of the sentence `53 partitions ...` about all partitions with this fault."""
    remedy: str = ""
    """The rest of that sentence, after the names of the partitions."""


def summary(faults: Sequence[Fault]) -> list[str]:
    """One sentence for all partitions that share a fault, in the order of their first ones."""
    alike: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((fault.shared, fault.remedy), []).append(fault)
    return [
        several[0].text
        if len(several) == 1
        else f"{len(several)} partitions {shared}"
        f" ({partitions_text((each.topic, each.partition) for each in several)}){remedy}"
        for (shared, remedy), several in alike.items()
    ]


def partition_faults(metadata: "MetadataResponse") -> list[Fault]:
    """The faults of leaders and in-sync replicas."""
    found = (
        _fault(topic.name, partition) for topic in metadata.topics for partition in topic.partitions
    )
    return [fault for fault in found if fault is not None]


def _fault(topic: str, partition: "PartitionMetadata") -> Fault | None:
    number, where = partition.index, partition_text(topic, partition.index)
    missing = sorted(set(partition.replicas) - set(partition.isr))
    if partition.leader < 0:
        remedy, together = (_who_could(partition, name) for name in (where, "TOPIC:P"))
        text = f"{where} has no leader{remedy}"
        return Fault(topic, number, text, "have no leader", together)
    if missing:
        brokers = f"broker {', '.join(map(str, missing))}"
        reasons = "".join(f"; {reason}" for reason in _conditions(partition))
        text = f"{where} lacks {brokers} in its ISR{reasons}"
        return Fault(topic, number, text, f"lack {brokers}", reasons)
    if partition.offline_replicas:
        reasons = "; ".join(_conditions(partition) or ["not all of its replicas count"])
        end = f"{reasons}, and no other one can lead in its place"
        text = f"{where}: {end} (`strandline offsets {topic}` says more)"
        return Fault(topic, number, text, "have an unfit replica", f": {end}")
    return None


def _who_could(partition: "PartitionMetadata", where: str) -> str:
    """The replicas for which a partition without a leader waits."""
    elr, last_known = partition.elr, partition.last_known_elr
    if elr:
        each = "each of which holds" if len(elr) > 1 else "which holds"
        return f" (start broker {' or '.join(map(str, elr))}, {each} all that was acknowledged)"
    without = f"`strandline leader elect --unclean {where}`"
    if not last_known:
        return (
            f" (no replica is known to be in sync; to elect the best replica that lives: {without})"
        )
    brokers = " and ".join(map(str, last_known))
    return (
        f" (it waits for broker {brokers}, in sync last, alive and on the same disk;"
        f" to go on without: {without})"
    )


def _conditions(partition: "PartitionMetadata") -> list[str]:
    """The reasons why replicas of the partition do not count."""
    from strandline_proto.conditions import condition_name

    names = list(map(condition_name, partition.offline_conditions))
    return condition_texts(partition.offline_replicas, names)
