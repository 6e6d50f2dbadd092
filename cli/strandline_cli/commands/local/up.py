"""`strandline up`: a controller and brokers as processes of this machine."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strandline_cli.cluster.console_start import (
    RunningConsole,
    check_console,
    start_console,
)
from strandline_cli.cluster.target import cluster_directory
from strandline_cli.errors import ClusterError, OutputFailed, ReaderLeft
from strandline_cli.interrupts import signals_as_interrupt, uninterrupted
from strandline_cli.nemesis.own_disks import MIB_MAX, MIB_MIN, make_disks
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_json, emit_table, note
from strandline_cli.standard_streams import let_go_of_stdout
from strandline_local.listeners import GRPC, KAFKA, addresses_of, as_documents
from strandline_local.local_cluster import LocalCluster, ProcessId

_POLL_S = 0.25
_WITHOUT_KAFKA: Final = (
    "the configuration kept in this directory names its only listener; use another --dir"
)


def up(
    brokers: Annotated[
        int | None,
        typer.Option("-n", "--brokers", min=1, max=99, help="Number of brokers (default 3)."),
    ] = None,
    directory: DirOption = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            help="The first broker's port (9092) for Kafka's protocol; gRPC is 10,000 above, the"
            " controller's port one below. 0: free ports.",
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once the cluster answers.")
    ] = False,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="Set a configuration key; kept in the directory. May be repeated.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65_535,
            help="Serve metrics and health over HTTP: the controller on this port, broker N on"
            " this port + N; kept in the directory. 0: free ports.",
        ),
    ] = None,
    own_disks: Annotated[
        int | None,
        typer.Option(
            "--own-disks",
            metavar="MIB",
            min=MIB_MIN,
            max=MIB_MAX,
            help="Give each server a disk of its own of MIB, an ext4 image on a loop device, so"
            " that the console's fault lab can fill one or slow it down; kept in the directory."
            " Takes root.",
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Start the console too; `down` stops it.")
    ] = False,
    console_port: Annotated[
        int,
        typer.Option("--console-port", min=0, max=65_535, help="Its port; 0: a free one."),
    ] = 8080,
    output: FormatOption = Format.TABLE,
) -> int:
    """Start a cluster in a directory, or resume it, until Ctrl-C.

    SIGTERM and the end of the terminal (SIGHUP) stop it too. With --detach the cluster keeps
    running.

    Example: strandline up --brokers 3 --detach
    """
    from strandline_local.overrides import split_overrides

    controller_config, broker_config = split_overrides(config or [])
    if console:
        check_console(console_port)
    cluster = LocalCluster.create(
        cluster_directory(directory, may_be_new=True),
        brokers=brokers,
        port=port,
        controller_config=controller_config,
        broker_config=broker_config,
        metrics_port=metrics_port,
    )
    if own_disks is not None and not cluster.alive():
        make_disks(cluster.directory, map(cluster.name_of, cluster.process_ids), own_disks)
    with signals_as_interrupt():
        started, is_up = time.monotonic(), False
        try:
            cluster.up()
            seconds = time.monotonic() - started
            shown = _with_console(cluster, console_port) if console else None
            try:
                _announce(cluster, output, shown, seconds=seconds)
            except ReaderLeft:
                let_go_of_stdout()  # the running cluster is the result
            if detach:
                return 0
            is_up = True
            return _stay(cluster)
        except (KeyboardInterrupt, OutputFailed):
            _stop(cluster)
            if is_up:
                return 0
            let_go_of_stdout()  # pending output must not hold up the end
            raise


def _with_console(cluster: LocalCluster, port: int) -> RunningConsole:
    try:
        return start_console(cluster.directory, port)
    except ClusterError:
        _stop(cluster)
        raise


def _announce(
    cluster: LocalCluster, output: Format, console: RunningConsole | None, *, seconds: float
) -> None:
    processes: list[dict[str, Any]] = [
        {
            "id": process_id,
            "pid": cluster.process(process_id).pid,
            "address": cluster.address(process_id),
            "listeners": as_documents(cluster.listeners(process_id)),
            "metrics": _metrics_url(cluster, process_id),
            "log": str(cluster.process(process_id).log_file),
        }
        for process_id in cluster.process_ids
    ]
    if output is Format.JSON:
        emit_json(
            {
                "bootstrap": cluster.bootstrap,
                "kafka_bootstrap": cluster.file.kafka_bootstrap,
                "grpc_bootstrap": cluster.grpc_bootstrap,
                "dir": str(cluster.directory),
                "controller": processes[0],
                "brokers": processes[1:],
                **({} if console is None else {"console": asdict(console)}),
            }
        )
        return
    has_metrics = any(p["metrics"] is not None for p in processes)
    rows = [
        (
            p["id"],
            *(addresses_of(protocol, p["listeners"]) for protocol in (KAFKA, GRPC)),
            *((p["metrics"],) if has_metrics else ()),
            p["pid"],
            _shown(str(p["log"])),
        )
        for p in processes
    ]
    emit_table(("process", KAFKA, GRPC, *(("metrics",) if has_metrics else ()), "pid", "log"), rows)
    note(f"The cluster answers after {seconds:.1f} s at --bootstrap {cluster.bootstrap}")
    if cluster.file.kafka_bootstrap is None:
        note(f"Kafka's clients cannot connect: {_WITHOUT_KAFKA}")
    else:
        note(f"Kafka's clients connect to bootstrap.servers={cluster.file.kafka_bootstrap}")
    if console is not None:
        note(f"The console is at {console.address}; token for faults: {console.token}")


def _metrics_url(cluster: LocalCluster, process_id: ProcessId) -> str | None:
    address = cluster.metrics_address(process_id)
    return None if address is None else f"http://{address}/metrics"


def _shown(path: str) -> str:
    """A path relative to where the user stands, if it lies below."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _stay(cluster: LocalCluster) -> int:
    """Report processes that die, until another command has stopped them all."""
    note("Ctrl-C stops it.")
    reported: set[ProcessId] = set()
    while True:
        time.sleep(_POLL_S)
        died = set(cluster.died())
        for process_id in sorted(died - reported, key=str):
            note(f"{cluster.exit_report(process_id)}\nBring it back: strandline start {process_id}")
        reported = died
        if not any(cluster.process(i).recorded for i in cluster.process_ids):
            note("The cluster was stopped.")
            return 0


def _stop(cluster: LocalCluster) -> None:
    with uninterrupted():
        note("Stopping the cluster ...")
        for process_id in _as_it_is_now(cluster).down():
            note(f"{process_id} did not stop in time and was killed")


def _as_it_is_now(cluster: LocalCluster) -> LocalCluster:
    """Another command may have taken in a broker that had been decommissioned."""
    try:
        return LocalCluster.open(cluster.directory)
    except ClusterError:
        return cluster
