"""`strandline status`: the processes of a cluster, as they report themselves."""

from typing import TYPE_CHECKING, Any

from strandline_cli.cluster.target import Target, find_target
from strandline_cli.errors import CliError, ClusterError
from strandline_cli.options import BootstrapOption, DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_json, emit_table, note
from strandline_local import probe
from strandline_local.listeners import GRPC, KAFKA, addresses_of, as_documents
from strandline_local.local_cluster import LocalCluster

if TYPE_CHECKING:
    from strandline_proto.v1.metadata_pb2 import DescribeClusterResponse

_TIMEOUT_S = 5.0
_RUNNING = ("ACTIVE", "UNFENCED", "CONTROLLED_SHUTDOWN")


def status(
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show controller and brokers: pid, addresses, state, build.

    Example: strandline status
    """
    target = find_target(bootstrap=bootstrap, directory=directory)
    document = describe(target)
    if output is Format.JSON:
        emit_json(document)
    else:
        rows = [("controller", *_cells(document["controller"]))]
        rows += [("broker", *_cells(broker)) for broker in document["brokers"]]
        emit_table(("role", "id", "pid", KAFKA, GRPC, "state", "build"), rows)
        if document["problem"] is not None:
            note(document["problem"])
    return 0


def _cells(process: dict[str, Any]) -> tuple[object, ...]:
    listeners = process["listeners"]
    return (
        process["id"],
        process["pid"],
        addresses_of(KAFKA, listeners),
        addresses_of(GRPC, listeners),
        process["state"],
        process["build"],
    )


def describe(target: Target) -> dict[str, Any]:
    """The cluster as described by any address that answers; a local directory supplies the rest."""
    problem: str | None = None
    document: dict[str, Any] | None = None
    for address in target.addresses:
        try:
            document = _through_broker(address)
            break
        except ClusterError as why:
            problem = str(why)
    served = document is not None
    if target.local is not None:
        if document is None:
            document = _from_controller(target.local)
        document = _with_local_knowledge(target.local, document)
    if document is None:
        raise CliError(
            f"no broker answers at {target.bootstrap} (last: {problem}): check the addresses, or"
            " start the cluster with `strandline up`"
        )
    stopped = _problem(document, served=served) or document["problem"]
    document["problem"] = "; ".join(filter(None, (stopped, _several_builds(document)))) or None
    return document


def _problem(document: dict[str, Any], *, served: bool) -> str | None:
    """The process that the user has to start; `served`: a broker answers."""
    controller_is_well = document["controller"]["state"] not in ("UNREACHABLE", "DEAD")
    if served:
        if controller_is_well:
            return None
        return (
            "the controller cannot be reached: brokers go on serving, but nothing can be created"
            " and no leader elected until it runs again (`strandline start controller`)"
        )
    brokers = document["brokers"]
    all_dead = all(broker["state"] == "DEAD" for broker in brokers)
    if document["controller"]["state"] == "DEAD" and all_dead:
        return "nothing of this cluster runs: `strandline up` starts it"
    what = "no broker runs" if all_dead else "no broker answers"
    if not controller_is_well:
        what += ", and the controller cannot be reached"
    dead = [f"`strandline start {b['id']}`" for b in brokers if b["state"] == "DEAD"]
    if document["controller"]["state"] == "DEAD":
        dead.insert(0, "`strandline start controller`")
    how = f" ({', '.join(dead)})" if dead else ""
    return f"{what}: nothing is served until one does{how}"


def _several_builds(document: dict[str, Any]) -> str | None:
    """The processes of each build, during an unfinished upgrade."""
    running = [("controller", document["controller"])]
    running += [(f"broker {broker['id']}", broker) for broker in document["brokers"]]
    names: dict[str, list[str]] = {}
    for name, process in running:
        if process["state"] in _RUNNING and process["build"]:
            names.setdefault(process["build"], []).append(name)
    if len(names) < 2:
        return None
    told = "; ".join(f"{build}: {', '.join(names[build])}" for build in names)
    return (
        f"{len(names)} builds run ({told}): an upgrade is under way, or was not finished; restart"
        " each process that has the build of before"
    )


def _through_broker(address: str) -> dict[str, Any]:
    answer = probe.ask_cluster(address, _TIMEOUT_S)
    if answer.error_code != 0:
        return _without_controller(address)
    return _described(answer)


def _from_controller(local: LocalCluster) -> dict[str, Any] | None:
    """The description by this machine's controller if no broker answers; None if it does not answer
    either.
    """
    from strandline_local.cluster_files import CONTROLLER

    if local.process(CONTROLLER).pid is None:
        return None
    try:
        return _described(probe.ask_controller(local.controller_address, _TIMEOUT_S))
    except ClusterError:
        return None


def _described(answer: "DescribeClusterResponse") -> dict[str, Any]:
    controller = answer.controller
    return {
        "cluster_id": answer.cluster_id,
        "controller": {
            "id": controller.id,
            "pid": controller.pid,
            "address": f"{controller.host}:{controller.port}",
            "listeners": _grpc_alone(f"{controller.host}:{controller.port}", "CONTROLLER"),
            "state": controller.state,
            "controller_epoch": controller.controller_epoch,
            "metadata_offset": controller.metadata_offset,
            "build": controller.version,
        },
        "brokers": [
            _process(b.id, b.pid, b.address, b.state, b.build, as_documents(b.listeners))
            for b in probe.states_in(answer)
        ],
        "problem": _lost_directories(answer),
    }


def _without_controller(address: str) -> dict[str, Any]:
    """The description by a broker alone."""
    answer = probe.ask_metadata(address, _TIMEOUT_S)
    return {
        "cluster_id": answer.cluster_id,
        "controller": _process(answer.controller_id, None, None, "UNREACHABLE"),
        "brokers": [
            _process(b.node_id, None, f"{b.host}:{b.port}", "UNKNOWN")
            for b in sorted(answer.brokers, key=lambda b: b.node_id)
        ],
        "problem": None,
    }


def _lost_directories(answer: "DescribeClusterResponse") -> str | None:
    lost = [
        f"broker {b.id} has lost the data directory {path}: what was in it is not served there"
        for b in probe.states_in(answer)
        for path in b.offline_log_dirs
    ]
    return "; ".join(lost) or None


def _process(
    process_id: int | str,
    pid: int | None,
    address: str | None,
    state: str,
    build: str | None = None,
    listeners: list[dict[str, str]] | None = None,
) -> dict[str, Any]:
    """`build`: the one that it runs or ran last, as the controller knows it. `listeners`: as far as
    they are known; None: the address is of a listener for gRPC.
    """
    if listeners is None:
        listeners = [] if address is None else _grpc_alone(address, None)
    return {
        "id": process_id,
        "pid": pid,
        "address": address,
        "listeners": listeners,
        "state": state,
        "build": build,
    }


def _grpc_alone(address: str, listener: str | None) -> list[dict[str, Any]]:
    return [{"listener": listener, "protocol": GRPC, "address": address}]


def _with_local_knowledge(local: LocalCluster, seen: dict[str, Any] | None) -> dict[str, Any]:
    """Pids of this machine, processes that never registered, and processes that are dead."""
    from strandline_local.cluster_files import CONTROLLER, CONTROLLER_NODE_ID

    document = seen or {
        "cluster_id": None,
        "controller": _process(CONTROLLER_NODE_ID, None, None, "UNREACHABLE"),
        "brokers": [],
        "problem": None,
    }
    controller = document["controller"]
    if controller["state"] == "UNREACHABLE":
        controller |= _process(
            CONTROLLER_NODE_ID,
            local.process(CONTROLLER).pid,
            local.controller_address,
            "UNREACHABLE",
        )
    known = {b["id"]: b for b in document["brokers"]}
    for broker_id in local.broker_ids:
        pid = local.process(broker_id).pid
        address = local.address(broker_id)
        listeners = as_documents(local.listeners(broker_id))
        here = _process(broker_id, pid, address, "UNKNOWN", listeners=listeners)
        broker = known.setdefault(broker_id, here)
        if broker["state"] == "UNKNOWN":
            broker |= {"address": address, "listeners": listeners}
        if pid is None:
            broker |= here | {"state": "DEAD"}
        elif broker["pid"] is None:
            broker["pid"] = pid
    if local.process(CONTROLLER).pid is None:
        controller |= _process(CONTROLLER_NODE_ID, None, local.controller_address, "DEAD")
    document["brokers"] = [known[i] for i in sorted(known)]
    return document
