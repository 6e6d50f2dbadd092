"""`strandline doctor`: a check that clients can reach every address that brokers advertise, and of
Java, file descriptors, clocks and disks.
"""

import importlib.util
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strandline_cli.cluster.checks import (
    OK,
    PROBLEM,
    WARNING,
    Check,
    clock_check,
    descriptors_check,
    disk_check,
    java_check,
    process_descriptors,
)
from strandline_cli.cluster.reach import Place, Unreached, reach_all
from strandline_cli.cluster.target import Target, find_target
from strandline_cli.errors import CliError, ClusterError, UsageMistake
from strandline_cli.options import BootstrapOption, DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_json, emit_table, write_line
from strandline_local import probe
from strandline_local.cluster_files import CONTROLLER
from strandline_local.listeners import GRPC, ListenerAddress

if TYPE_CHECKING:
    from strandline_proto.v1.metadata_pb2 import DescribeClusterResponse


@dataclass(frozen=True, slots=True)
class _Known:
    """The addresses that are known, and what is wrong besides them."""

    places: list[Place]
    problems: list[str]
    addresses: dict[int, str]
    """An address of each broker for gRPC."""
    states: "list[probe.BrokerState]"
    """The brokers as the controller describes them; none without it."""


def doctor(
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    listener: Annotated[
        list[str] | None,
        typer.Option("--listener", metavar="NAME", help="Check only this one. May be repeated."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds within which each must answer.")
    ] = 5.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Check addresses, Java, file descriptors, clocks and disks.

    Each address that brokers advertise is tried from here, by its protocol. With --listener only
    these are. Exit status 1 if one does not answer as the broker that advertises it, or if there is
    another problem. Warnings do not change it.

    Example: strandline doctor --listener PLAINTEXT
    """
    target = find_target(bootstrap=bootstrap, directory=directory)
    known = _known(target, timeout)
    places = _of_listeners(known.places, listener or [])
    results = list(zip(places, reach_all(places, timeout), strict=True))
    problems = known.problems + [_told(place, why) for place, why in results if why is not None]
    is_reachable = not problems
    silent = {place.listener.address for place, why in results if why is not None}
    checks = [] if listener else all_checks(target, known, silent, timeout)
    problems += [check.text for check in checks if check.state == PROBLEM]
    if output is Format.JSON:
        emit_json(
            {
                "reachable": is_reachable,
                "checks": [asdict(check) for check in checks],
                "listeners": [_document(place, why) for place, why in results],
                "problems": problems,
            }
        )
    else:
        emit_table(("broker", "listener", "protocol", "address", "result"), map(_row, results))
        if checks:
            emit_table(("check", "where", "state", "found"), map(_check_row, checks))
        for problem in problems:
            write_line(problem)
        for check in checks:
            if check.state == WARNING:
                write_line(f"warning: {check.text}")
    return 1 if problems else 0


def all_checks(target: Target, known: _Known, silent: set[str], timeout_s: float) -> list[Check]:
    """Looks at this machine, the local processes and each broker but those that are silent."""
    has_spark = importlib.util.find_spec("pyspark") is not None
    found: list[Check | None] = [java_check(has_spark=has_spark), descriptors_check()]
    if target.local is not None:
        names = {str(broker): f"broker {broker}" for broker in target.local.broker_ids}
        for process_id, name in {CONTROLLER: CONTROLLER, **names}.items():
            pid = target.local.process(process_id).pid
            found.append(None if pid is None else process_descriptors(name, pid))
    for state in known.states:
        found += _reported(state)
    for broker, address in sorted(known.addresses.items()):
        if address not in silent:
            found += _of_broker(broker, address, timeout_s)
    return [check for check in found if check is not None]


def _reported(state: "probe.BrokerState") -> list[Check | None]:
    """What a broker has reported to the controller."""
    where = f"broker {state.id}"
    return [
        Check(
            *("descriptors", where, PROBLEM, "it has no file descriptors left"),
            "close connections, or raise its limit (ulimit -Hn, LimitNOFILE=) and restart it",
        )
        if state.lacks_descriptors
        else None,
        *(
            Check("disk", where, PROBLEM, f"{path} is full", "free space: it takes no records")
            for path in state.full_log_dirs
        ),
    ]


def _of_broker(broker: int, address: str, timeout_s: float) -> list[Check | None]:
    """Looks at the clock and the disks of a broker."""
    where = f"broker {broker}"
    found: list[Check | None] = []
    try:
        ahead_ms, took_ms = probe.ask_clock(address, timeout_s)
        found.append(clock_check(where, ahead_ms=ahead_ms, round_trip_ms=took_ms))
    except ClusterError as why:
        found.append(Check("clock", where, OK, f"not looked at: {why}"))
    try:
        described = probe.ask_log_dirs(address, ["__none"], timeout_s).log_dirs
    except ClusterError as why:
        return [*found, Check("disk", where, OK, f"not looked at: {why}")]
    for each in described:
        free, total = each.usable_bytes, each.total_bytes
        found.append(disk_check(where, each.path, failure=each.failure, free=free, total=total))
    return found


def _check_row(check: Check) -> tuple[object, ...]:
    return check.subject, check.where, check.state, check.said


def _of_listeners(places: list[Place], names: list[str]) -> list[Place]:
    there = list(dict.fromkeys(place.listener.listener for place in places))
    for name in names:
        if name not in there:
            raise UsageMistake(f"no broker has a listener {name}: there are {', '.join(there)}")
    return [place for place in places if not names or place.listener.listener in names]


def _row(result: tuple[Place, Unreached | None]) -> tuple[object, ...]:
    place, why = result
    at = place.listener
    said = "reached" if why is None else "not reached"
    return place.broker, at.listener, at.protocol, at.address, said


def _document(place: Place, why: Unreached | None) -> dict[str, Any]:
    return {
        "broker": place.broker,
        "listener": place.listener.listener,
        "protocol": place.listener.protocol,
        "address": place.listener.address,
        "reached": why is None,
        "reason": None if why is None else why.reason,
        "remedy": None if why is None else why.remedy,
    }


def _told(place: Place, why: Unreached) -> str:
    at = place.listener
    return (
        f"broker {place.broker}: its listener {at.listener} ({at.protocol}) at {at.address} is not"
        f" reached: {why.reason}; {why.remedy}"
    )


def _known(target: Target, timeout_s: float) -> _Known:
    """The addresses as the controller knows them; without it, as an answering broker knows them."""
    last = ""
    for address in target.addresses:
        try:
            answer = probe.ask_cluster(address, timeout_s)
            if answer.error_code != 0:
                return _without_controller(target, address, answer.error_message, timeout_s)
        except ClusterError as why:
            last = str(why)
            continue
        return _as_described(target, answer)
    if target.local is not None and target.local.process(CONTROLLER).pid is not None:
        return _as_described(
            target, probe.ask_controller(target.local.controller_address, timeout_s)
        )
    raise CliError(
        f"no broker answers at {target.bootstrap} (last: {last}): check the addresses, or start the"
        " cluster with `strandline up`"
    )


def _as_described(target: Target, answer: "DescribeClusterResponse") -> _Known:
    states = probe.states_in(answer)
    places = [
        Place(answer.cluster_id, state.id, listener)
        for state in states
        for listener in state.listeners
    ]
    registered = {state.id for state in states}
    expected = [] if target.local is None else target.local.broker_ids
    problems = [
        f"broker {broker} has never registered, and advertises nothing: start it (`strandline start"
        f" {broker}`), its log says why it ends"
        for broker in expected
        if broker not in registered
    ]
    addresses = {
        state.id: listener.address
        for state in states
        for listener in reversed(state.listeners)
        if listener.protocol == GRPC
    }
    return _Known(places, problems, addresses, states)


def _without_controller(target: Target, address: str, why: str, timeout_s: float) -> _Known:
    answer = probe.ask_metadata(address, timeout_s)
    named = {b.node_id: [_grpc_alone(b.host, b.port)] for b in answer.brokers}
    checked = f"only the addresses that {address} names are checked"
    if target.local is not None:
        named = {broker: target.local.listeners(broker) for broker in target.local.broker_ids}
        checked = f"the addresses in {target.local.directory} are checked"
    problem = (
        f"the controller cannot be reached ({why}): {checked}; start the controller (`strandline"
        " start controller`)"
    )
    places = [
        Place(answer.cluster_id, broker, listener)
        for broker in sorted(named)
        for listener in named[broker]
    ]
    addresses = {b.node_id: probe.host_port(b.host, b.port) for b in answer.brokers}
    return _Known(places, [problem], addresses, [])


def _grpc_alone(host: str, port: int) -> ListenerAddress:
    """An address of a listener whose name is not known."""
    return ListenerAddress("?", GRPC, probe.host_port(host, port))
