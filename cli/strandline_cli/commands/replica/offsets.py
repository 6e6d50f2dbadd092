"""`strandline offsets`: the progress of each replica of a topic."""

from typing import TYPE_CHECKING, Any

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import CliError, ClusterError
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TopicArgument,
)
from strandline_cli.shown.output import emit_json, emit_table, note
from strandline_local import probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proto.v1.metadata_pb2 import (
        MetadataResponse,
        PartitionMetadata,
        ReplicaDescription,
        TopicMetadata,
    )

_CALL_S = 5.0
_COLUMNS = (
    "partition",
    "broker",
    "role",
    "in_sync",
    "log_start_offset",
    "log_end_offset",
    "high_watermark",
    "leader_epoch",
)


def offsets(
    topic: TopicArgument,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show log ends, high watermark and epoch of every replica.

    Example: strandline offsets orders
    """
    target = find_target(bootstrap=bootstrap, directory=directory)
    replicas = replica_offsets(target.addresses, topic)
    if output is Format.JSON:
        emit_json(replicas)
    else:
        emit_table(_COLUMNS, [[_cell(replica[c]) for c in _COLUMNS] for replica in replicas])
        for replica in replicas:
            if "problem" in replica:
                note(replica["problem"])
    return 0


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "?" if value is None else value


def replica_offsets(addresses: list[str], topic: str) -> list[dict[str, Any]]:
    """One row for each replica; one on a broker that does not answer has role `unreachable`."""
    metadata = _ask_any(addresses)
    described = _find(metadata, topic)
    reports: dict[tuple[int, int], ReplicaDescription] = {}
    for broker in metadata.brokers:
        for replica in _replicas_on(f"{broker.host}:{broker.port}", described.topic_id):
            reports[replica.partition, broker.node_id] = replica
    return [
        _row(partition, broker, reports.get((partition.index, broker)))
        for partition in sorted(described.partitions, key=lambda p: p.index)
        for broker in partition.replicas
    ]


def _ask_any(addresses: list[str]) -> "MetadataResponse":
    problem = ""
    for address in addresses:
        try:
            return probe.ask_metadata(address, _CALL_S, topics=True)
        except ClusterError as why:
            problem = str(why)
    raise CliError(f"no broker answers (last: {problem}): is the cluster up? `strandline status`")


def _find(metadata: "MetadataResponse", topic: str) -> "TopicMetadata":
    for described in metadata.topics:
        if described.name == topic and described.error_code == 0:
            return described
    raise CliError(
        f"no topic {topic!r} in this cluster: `strandline topic list` shows those there are"
    )


def _replicas_on(address: str, topic_id: bytes) -> "Iterator[ReplicaDescription]":
    try:
        yield from probe.ask_replicas(address, topic_id, _CALL_S).replicas
    except ClusterError:
        return


def _row(
    partition: "PartitionMetadata", broker: int, report: "ReplicaDescription | None"
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "partition": partition.index,
        "broker": broker,
        "role": "unreachable" if report is None else report.role,
        "in_sync": broker in partition.isr,
    }
    for name in ("log_start_offset", "log_end_offset", "high_watermark", "leader_epoch"):
        known = report is not None and (report.error_code == 0 or report.role != "offline")
        row[name] = getattr(report, name) if known else None
    if report is not None and report.error_message:
        row["problem"] = report.error_message
    return row
