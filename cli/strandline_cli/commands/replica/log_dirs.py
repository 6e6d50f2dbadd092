"""`strandline log-dirs`: the disk use of each broker."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import CliError, ClusterError, UsageMistake
from strandline_cli.options import BootstrapOption, DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_json, emit_table, note
from strandline_cli.shown.partitions import partition_text
from strandline_cli.shown.sizes import size_text
from strandline_local import probe

if TYPE_CHECKING:
    from strandline_proto.v1.log_dirs_pb2 import LogDirDescription
    from strandline_proto.v1.metadata_pb2 import MetadataResponse

_CALL_S: Final = 10.0
_COLUMNS: Final = ("broker", "directory", "replicas", "size", "free", "of", "state")
_REPLICA_COLUMNS: Final = ("broker", "directory", "partition", "size", "lag")


def log_dirs(
    brokers: Annotated[
        list[int] | None,
        typer.Option("--broker", min=0, metavar="ID", help="Only this one; may be repeated."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Count only its replicas; may be repeated."),
    ] = None,
    replicas: Annotated[
        bool, typer.Option("--replicas", help="List the replicas, the largest first.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show the disk use of each broker, directory and replica.

    Exit status 1 if a broker does not answer, or a directory is out of service.

    Example: strandline log-dirs --topic orders --replicas
    """
    target = find_target(bootstrap=bootstrap, directory=directory)
    metadata = _ask_any(target.addresses)
    _check(metadata, brokers or [], topics or [])
    found = [
        row
        for broker in sorted(metadata.brokers, key=lambda b: b.node_id)
        if not brokers or broker.node_id in brokers
        for row in _rows(broker.node_id, probe.host_port(broker.host, broker.port), topics or [])
    ]
    if output is Format.JSON:
        emit_json(found)
    elif replicas:
        emit_table(_REPLICA_COLUMNS, _replica_rows(found))
    else:
        emit_table(_COLUMNS, map(_row, found))
    for row in found:
        if row["problem"] is not None and output is not Format.JSON:
            note(f"broker {row['broker']}: {row['problem']}")
    return 1 if any(row["problem"] is not None for row in found) else 0


def _ask_any(addresses: list[str]) -> "MetadataResponse":
    problem = ""
    for address in addresses:
        try:
            return probe.ask_metadata(address, _CALL_S, topics=True)
        except ClusterError as why:
            problem = str(why)
    raise CliError(f"no broker answers (last: {problem}): is the cluster up? `strandline status`")


def _check(metadata: "MetadataResponse", brokers: list[int], topics: list[str]) -> None:
    """Raises an error for a name that the cluster does not know."""
    there = {topic.name for topic in metadata.topics if topic.error_code == 0}
    for topic in topics:
        if topic not in there:
            raise CliError(
                f"no topic {topic!r} in this cluster: `strandline topic list` shows those there are"
            )
    live = sorted(broker.node_id for broker in metadata.brokers)
    for broker_id in brokers:
        if broker_id not in live:
            known = ", ".join(map(str, live)) or "none"
            raise UsageMistake(f"--broker {broker_id} is not among the live brokers ({known})")


def _rows(broker: int, address: str, topics: list[str]) -> list[dict[str, Any]]:
    """A row for each directory; one with the problem if the broker does not answer."""
    try:
        answer = probe.ask_log_dirs(address, topics, _CALL_S)
    except ClusterError as why:
        return [_document(broker, None, str(why))]
    return [_document(broker, each, None) for each in answer.log_dirs]


def _document(
    broker: int, described: "LogDirDescription | None", problem: str | None
) -> dict[str, Any]:
    if described is not None and described.failure:
        problem = f"{described.path} is out of service: {described.failure}"
    replicas = [] if described is None else described.replicas
    return {
        "broker": broker,
        "directory": None if described is None else described.path,
        "size_bytes": sum(replica.size_bytes for replica in replicas),
        "free_bytes": _known(-1 if described is None else described.usable_bytes),
        "total_bytes": _known(-1 if described is None else described.total_bytes),
        "replicas": [
            {
                "topic": replica.topic,
                "partition": replica.partition,
                "size_bytes": replica.size_bytes,
                "lag": replica.offset_lag,
            }
            for replica in sorted(replicas, key=lambda r: (-r.size_bytes, r.topic, r.partition))
        ],
        "problem": problem,
    }


def _known(size: int) -> int | None:
    return None if size < 0 else size


def _row(row: dict[str, Any]) -> tuple[object, ...]:
    problem, directory = row["problem"], row["directory"]
    state = "serves" if problem is None else "no answer" if directory is None else "failed"
    free, total = (
        size_text(-1 if row[n] is None else row[n]) for n in ("free_bytes", "total_bytes")
    )
    size = size_text(row["size_bytes"] if problem is None else -1)
    replicas = len(row["replicas"]) if problem is None else "?"
    return row["broker"], directory or "?", replicas, size, free, total, state


def _replica_rows(found: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    rows = [(row, replica) for row in found for replica in row["replicas"]]
    rows.sort(key=lambda each: -each[1]["size_bytes"])
    return [
        (
            row["broker"],
            row["directory"],
            partition_text(replica["topic"], replica["partition"]),
            size_text(replica["size_bytes"]),
            replica["lag"],
        )
        for row, replica in rows
    ]
