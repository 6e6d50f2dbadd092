"""`strandline health`: a check of the whole cluster, also for Compose's health checks."""

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import check_addresses, find_target
from strandline_cli.errors import ClusterError, UsageMistake
from strandline_cli.options import BootstrapOption, DirOption, Format, FormatOption
from strandline_cli.shown.conditions import refusal_text
from strandline_cli.shown.output import emit_done
from strandline_cli.shown.partition_faults import Fault, partition_faults, summary
from strandline_cli.shown.partitions import partitions_text
from strandline_local import probe

if TYPE_CHECKING:
    from strandline_proto.v1.metadata_pb2 import DescribeClusterResponse, MetadataResponse

INTERNAL = {
    "__consumer_offsets": ("no group can begin", "offsets.topic.replication.factor"),
    "__transaction_state": (
        "no transaction can begin",
        "transaction.state.log.replication.factor",
    ),
}
"""What does not work without an internal topic, and the key of its number of replicas."""
_ROUND_S = 3.0
"""The time that one address may be silent before the next is asked."""
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The faults, in plain sentences; none if healthy."""

    others: tuple[str, ...]
    """Faults of the controller, brokers and disks."""
    notes: tuple[str, ...] = ()
    """Hints for an operator although the cluster is healthy."""
    faults: tuple[Fault, ...] = ()
    """Faults of single partitions."""

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each fault."""
        return (*self.others, *(fault.text for fault in self.faults))

    @property
    def summary(self) -> tuple[str, ...]:
        """The same, with one sentence for all partitions that share a fault."""
        return (*self.others, *summary(self.faults))

    @property
    def healthy(self) -> bool:
        return not (self.others or self.faults)


@dataclass(frozen=True, slots=True)
class Expected:
    """The brokers that the cluster should have, as far as that is known."""

    count: int | None = None
    ids: tuple[int, ...] = ()


ANY = Expected()


def health(
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    controller: Annotated[
        str | None,
        typer.Option("--controller", metavar="HOST:PORT", help="Check only this controller."),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="HOST:PORT", help="Check only this broker."),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            min=1,
            metavar="N",
            help="Expected number of brokers; a local cluster's directory knows it.",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", min=0, help="Seconds to wait for health (30 if no number is given)."
        ),
    ] = 0,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=0.1, help="Seconds within which a process must answer."),
    ] = 10.0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List the fault of each partition.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """Check the controller, every broker and every ISR.

    Partitions with the same fault share a sentence; --verbose has one for each, on lines of their
    own. Exit status 0 if the cluster is healthy, else 1.

    Example: strandline health --wait 30
    """
    single = [address for address in (controller, broker) if address is not None]
    if len(single) + (bootstrap is not None or directory is not None) > 1:
        raise UsageMistake("--controller, --broker and a cluster exclude each other: give one")
    deadline = time.monotonic() + wait
    if single and brokers is not None:
        raise UsageMistake("--brokers is of a cluster, not of one process: leave it out")
    local = None
    addresses = single
    if not single:
        target = find_target(bootstrap=bootstrap, directory=directory)
        addresses, local = target.addresses, target.local
    check_addresses(",".join(addresses))
    expected = Expected(brokers, () if local is None else tuple(local.broker_ids))
    while True:
        if single:
            report = _judge_one(addresses[0], timeout, is_controller=controller is not None)
        else:
            report = judge_cluster(addresses, timeout, expected)
        if report.healthy or time.monotonic() >= deadline:
            break
        time.sleep(_POLL_S)
    document = {
        "healthy": report.healthy,
        "summary": list(report.summary),
        "problems": list(report.problems),
        "notes": list(report.notes),
    }
    emit_done(output, document, health_text(report, verbose=verbose))
    return 0 if report.healthy else 1


def health_text(report: HealthReport, *, verbose: bool) -> str:
    """The report as a line; if it is verbose, with a further line for each fault."""
    line = "healthy" if report.healthy else f"not healthy: {'; '.join(report.summary)}"
    if report.notes:
        line += f" (note: {'; '.join(report.notes)})"
    if verbose:
        return "\n".join([line, *(f"  {problem}" for problem in report.problems)])
    is_short = len(report.summary) < len(report.problems)
    return f"{line} (--verbose lists each partition)" if is_short else line


def _judge_one(address: str, timeout_s: float, *, is_controller: bool) -> HealthReport:
    try:
        if is_controller:
            probe.ask_controller(address, timeout_s)
        else:
            probe.ask_metadata(address, timeout_s)
    except ClusterError as why:
        return HealthReport((str(why),))
    return HealthReport(())


def judge_cluster(
    addresses: list[str], timeout_s: float = 10.0, expected: Expected = ANY
) -> HealthReport:
    """The cluster as described by the first broker that answers, and by the controller through it.

    A silent address is asked again until the time is over: a packet may have been lost.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        problems: list[str] = []
        is_plain = True
        for address in addresses:
            round_s = max(0.1, min(_ROUND_S, deadline - time.monotonic()))
            try:
                cluster = probe.ask_cluster(address, round_s)
                metadata = probe.ask_metadata(address, round_s, topics=True)
            except probe.NoAnswer as why:
                problems.append(str(why))
                is_plain &= why.is_plain
                continue
            report = _assess(cluster, metadata)
            if cluster.error_code != 0:
                return report
            others = [other for other in addresses if other != address]
            missing = _unregistered(cluster, others, expected, deadline)
            if not missing and report.healthy:
                missing = _lacking(metadata, address, deadline)
            return HealthReport((*missing, *report.others), report.notes, report.faults)
        if is_plain or time.monotonic() >= deadline:
            return HealthReport(tuple(problems))


def _assess(cluster: "DescribeClusterResponse", metadata: "MetadataResponse") -> HealthReport:
    if cluster.error_code != 0:
        return HealthReport((f"the controller cannot be reached: {cluster.error_message}",))
    states = probe.states_in(cluster)
    return HealthReport(
        others=(*_broker_problems(states), *_full(states, metadata)),
        notes=tuple(_strays(states)),
        faults=(*_refusals(states, metadata), *partition_faults(metadata)),
    )


def _lacking(metadata: "MetadataResponse", address: str, deadline: float) -> list[str]:
    """The internal topics that are not there at the deadline.

    The controller makes them a moment after enough brokers live.
    """
    while missing := INTERNAL.keys() - {topic.name for topic in metadata.topics}:
        if time.monotonic() >= deadline:
            return [
                f"{what}: {name} is made once as many brokers live as it is to have replicas"
                f" ({key} of the controller)"
                for name, (what, key) in INTERNAL.items()
                if name in missing
            ]
        time.sleep(_POLL_S)
        with contextlib.suppress(probe.NoAnswer):
            metadata = probe.ask_metadata(address, _ROUND_S, topics=True)
    return []


def _unregistered(
    cluster: "DescribeClusterResponse", addresses: list[str], expected: Expected, deadline: float
) -> list[str]:
    """Brokers that are to be there, and that the controller has never heard of."""
    ids = {broker.id for broker in cluster.brokers}
    problems = [
        f"broker {broker_id} has never registered: start it (`strandline start {broker_id}`), its"
        " log says why it ends"
        for broker_id in expected.ids
        if broker_id not in ids
    ]
    if not problems and len(ids) < (expected.count or 0):
        registered = ", ".join(map(str, sorted(ids))) or "none"
        problems.append(f"{len(ids)} of {expected.count} brokers are registered ({registered})")
    if problems:
        return problems
    known = {f"{each.host}:{each.port}" for broker in cluster.brokers for each in broker.listeners}
    for address in addresses:
        if address not in known:
            try:
                probe.ask_metadata(address, max(0.1, min(_ROUND_S, deadline - time.monotonic())))
            except probe.NoAnswer as why:
                problems.append(f"no registered broker has the address {address}, and {why}")
    return problems


def _strays(states: list[probe.BrokerState]) -> list[str]:
    notes = []
    for b in states:
        if b.stray_dirs:
            roots = " ".join(sorted({path.rpartition("/")[0] for path in b.stray_dirs}))
            notes.append(
                f"broker {b.id} keeps replicas that no topic claims: `strandline strays {roots}`"
                f" lists and deletes them"
            )
    return notes


def _broker_problems(states: list[probe.BrokerState]) -> list[str]:
    if not states:
        return ["no broker is registered"]
    problems = [f"broker {b.id} is {b.state}" for b in states if b.state != "UNFENCED"]
    return problems + [
        f"broker {b.id} has lost the data directory {path}"
        for b in states
        for path in b.offline_log_dirs
    ]


def _full(states: list[probe.BrokerState], metadata: "MetadataResponse") -> list[str]:
    """Disks without room, and the partitions whose replicas there take no more records."""
    from strandline_proto.v1.common_pb2 import REPLICA_CONDITION_DISK_FULL

    problems = []
    for broker in states:
        stuck = partitions_text(
            (topic.name, partition.index)
            for topic in metadata.topics
            for partition in topic.partitions
            if (broker.id, REPLICA_CONDITION_DISK_FULL)
            in zip(partition.offline_replicas, partition.offline_conditions, strict=False)
        )
        if broker.lacks_descriptors:
            problems.append(
                f"broker {broker.id} has no file descriptors left: its replicas take no more"
                f" records ({stuck or 'none'}); close connections, or raise its limit of"
                " open files (ulimit -Hn, LimitNOFILE=) and restart it"
            )
        if broker.full_log_dirs:
            problems.append(
                f"broker {broker.id} has no room in {', '.join(broker.full_log_dirs)}: its"
                f" replicas there take no more records ({stuck or 'none'})"
            )
    return problems


def _refusals(states: list[probe.BrokerState], metadata: "MetadataResponse") -> list[Fault]:
    """Replicas that are stopped, and the command that lets them go on."""
    names = {topic.topic_id: topic.name for topic in metadata.topics}
    return [
        Fault(
            names[r.topic_id],
            r.partition_index,
            refusal_text(
                names[r.topic_id],
                partition=r.partition_index,
                broker=broker.id,
                leader=r.leader_id,
                leader_epoch=r.leader_epoch,
                offset=r.offset,
                high_watermark=r.high_watermark,
                log_end_offset=r.log_end_offset,
            ),
            f"on broker {broker.id} have refused to cut acknowledged records",
            ": `strandline health --verbose` has the command for each",
        )
        for broker in states
        for r in broker.refused_truncations
        if r.topic_id in names
    ]
