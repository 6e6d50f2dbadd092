"""`strandline topic describe`."""

from typing import TYPE_CHECKING, Any

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
    TopicArgument,
)
from strandline_cli.shown.conditions import condition_texts, refusal_text
from strandline_cli.shown.output import emit_json, emit_table, listed, note
from strandline_cli.shown.partitions import partition_text

if TYPE_CHECKING:
    from strandline.types import ClusterDescription, TopicDescription


def describe(
    topic: TopicArgument,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show leader, epoch, replicas and ISR of each partition.

    Eligible (elr) are replicas that left the ISR while it was below min.insync.replicas. They hold
    every acknowledged record. One of them leads if no replica in the ISR can.

    Example: strandline topic describe orders
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> dict[str, Any]:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            found = (await admin.describe_topics([topic]))[topic]
            document = _document(found)
            if any(p.offline_replicas for p in found.partitions):
                cluster = await admin.describe_cluster()
                document["refused_truncations"] = _refused(cluster, found)
                document["full_log_dirs"] = _full(cluster, found)
        return document

    document = run_client(work())
    if output is Format.JSON:
        emit_json(document)
        return 0
    rows = [
        (
            p["partition"],
            "none" if p["leader"] == -1 else p["leader"],
            p["leader_epoch"],
            listed(p["replicas"]),
            listed(p["isr"]),
            listed(p["elr"]),
        )
        for p in document["partitions"]
    ]
    emit_table(("partition", "leader", "leader_epoch", "replicas", "isr", "elr"), rows, title=topic)
    for p in document["partitions"]:
        _note_offline(topic, p)
    for full in document["full_log_dirs"]:
        note(f"broker {full['broker']} has no room in {', '.join(full['paths'])}")
    for refused in document["refused_truncations"]:
        note(refusal_text(topic, **refused))
    return 0


def _document(found: "TopicDescription") -> dict[str, Any]:
    from strandline_proto.ids import topic_id_text

    return {
        "refused_truncations": [],
        "full_log_dirs": [],
        "name": found.name,
        "topic_id": topic_id_text(found.topic_id),
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "elr": list(p.elr),
                "offline": [
                    {"broker": broker, "condition": condition}
                    for broker, condition in zip(
                        p.offline_replicas, p.offline_conditions, strict=False
                    )
                ],
            }
            for p in found.partitions
        ],
    }


def _refused(cluster: "ClusterDescription", found: "TopicDescription") -> "list[dict[str, int]]":
    return [
        {
            "partition": r.partition,
            "broker": broker.id,
            "leader": r.leader,
            "leader_epoch": r.leader_epoch,
            "offset": r.offset,
            "high_watermark": r.high_watermark,
            "log_end_offset": r.log_end_offset,
        }
        for broker in cluster.brokers
        for r in broker.refused_truncations
        if r.topic_id == found.topic_id
    ]


def _full(cluster: "ClusterDescription", found: "TopicDescription") -> list[dict[str, Any]]:
    """Disks without room of brokers whose replicas of this topic take no more for it."""
    stuck = {
        broker
        for p in found.partitions
        for broker, condition in zip(p.offline_replicas, p.offline_conditions, strict=False)
        if condition == "disk-full"
    }
    return [
        {"broker": broker.id, "paths": list(broker.full_log_dirs)}
        for broker in cluster.brokers
        if broker.id in stuck
    ]


def _note_offline(topic: str, partition: dict[str, Any]) -> None:
    brokers = [each["broker"] for each in partition["offline"]]
    conditions = [each["condition"] for each in partition["offline"]]
    for text in condition_texts(brokers, conditions):
        note(f"{partition_text(topic, partition['partition'])}: {text}")
