"""`strandline doctor`: a check that clients can reach every address that brokers advertise."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strandline_cli.cluster import probe
from strandline_cli.cluster.cluster_files import CONTROLLER
from strandline_cli.cluster.listeners import GRPC, ListenerAddress
from strandline_cli.cluster.reach import Place, Unreached, reach_all
from strandline_cli.cluster.target import Target, find_target
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import BootstrapOption, DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_json, emit_table, write_line

if TYPE_CHECKING:
    from strandline_proto.v1.metadata_pb2 import DescribeClusterResponse


@dataclass(frozen=True, slots=True)
class _Known:
    """The addresses that are known, and what is wrong besides them."""

    places: list[Place]
    problems: list[str]


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
    """Check that each address that brokers advertise can be reached from here, by its protocol.

    Exit status 0 if all answer as the broker that advertises them, else 1.

    Example: strandline doctor --listener PLAINTEXT
    """
    known = _known(find_target(bootstrap=bootstrap, directory=directory), timeout)
    places = _of_listeners(known.places, listener or [])
    results = list(zip(places, reach_all(places, timeout), strict=True))
    problems = known.problems + [_told(place, why) for place, why in results if why is not None]
    if output is Format.JSON:
        emit_json(
            {
                "reachable": not problems,
                "listeners": [_document(place, why) for place, why in results],
                "problems": problems,
            }
        )
    else:
        emit_table(("broker", "listener", "protocol", "address", "result"), map(_row, results))
        for problem in problems:
            write_line(problem)
    return 1 if problems else 0


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
        except CliError as why:
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
    return _Known(places, problems)


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
    return _Known(places, [problem])


def _grpc_alone(host: str, port: int) -> ListenerAddress:
    """An address of a listener whose name is not known."""
    return ListenerAddress("?", GRPC, probe.host_port(host, port))
