"""What a process has and needs no more: I-182.

Who ends in order has ended each of its tasks first but for calls that are cancelled, and a client
its timers too, as its program may go on without it. And when everything is well and the clients
have gone, a server has nothing left of them: no stream of a member, no producer that waits, no
consumer that listens. What it has for the other processes that run does not grow with what has
happened: a task of each kind for itself or for each of them, a few calls and connections, a
listener for each follower, and no more timers than tasks that wait for them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.replica.leading import Leading
from strandline_proof.sim.oracles.process.descriptors import left_open

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World

NOT_ITS_OWN: Final = ("Node._live", "ClientCall._handle_status")
"""The task that is the process, and what gRPC has for each call until it has told its end."""
HANDLER: Final = "ServerCall._run"
"""The task of a call at its server, whichever call it is. A gRPC server that stops cancels those
that its grace leaves, and does not wait for their ends.
"""
LOOPS: Final = 4
"""Tasks of one kind that a server has for itself: a disk is flushed by four."""
CALLS: Final = 3
"""Calls of one process at a server: heartbeats, pushes or fetches, and one that comes and goes."""
FILES_EVERY: Final = 4
"""Of so many seeds one closes what lies in cycles of garbage, which takes its time."""
CONNECTIONS: Final = 4
"""Connections between two servers, as each opens one for each purpose."""


def left_by(node: Node, *, is_server: bool) -> str:
    """What a process that ends in order, in this step, leaves unfinished; empty if nothing."""
    tasks = [kind for kind in _tasks(node).elements() if kind not in (*NOT_ITS_OWN, HANDLER)]
    timers = () if is_server else _timers(node).elements()
    return ", ".join([*(f"task {kind}" for kind in tasks), *(f"timer {kind}" for kind in timers)])


def left_behind(world: World, seed: int) -> str:
    """What servers have and need no more when the clients have gone; empty if nothing. Some seeds
    look at open files too.
    """
    return left_at_servers(world) or (left_open(world) if seed % FILES_EVERY == 0 else "")


def left_at_servers(world: World) -> str:
    """What the servers still have of those that have gone; empty if nothing."""
    running = [node for node in world.nodes.values() if node.running]
    servers = [node for node in (world.controller, *world.brokers) if node.running]
    others, clients = len(running) - 1, len(running) - len(servers)
    found = [
        f"{node.name} has {what}"
        for node in servers
        for what in (*_grown(node, others), *_kept(node, others, clients))
    ]
    return "; ".join(found)


def _grown(node: Node, others: int) -> Iterator[str]:
    """What is more than one for each other process."""
    tasks, timers = _tasks(node), _timers(node)
    for kind, count in tasks.items():
        most = CALLS * others if kind == HANDLER else max(LOOPS, others)
        if count > most:
            yield f"{count} tasks {kind}"
    if timers.total() > tasks.total():
        yield f"{timers.total()} timers for {tasks.total()} tasks: {dict(timers)}"
    connections = node.connections()
    if connections > CONNECTIONS * others:
        yield f"{connections} connections"


def _kept(node: Node, others: int, clients: int) -> Iterator[str]:
    """What waits or listens beyond those that still run."""
    process: Any = node.process
    for replica in _replicas(process):
        role = replica.role
        if not isinstance(role, Leading):
            continue
        waiting = sum(not waiter.is_done for waiter in role.appends.waiting())
        if waiting > clients:
            yield f"{waiting} producers that wait for {replica.name}"
        if len(role.consumer_listeners) > clients:
            yield f"{len(role.consumer_listeners)} consumers that listen at {replica.name}"
        if len(role.replica_listeners) > others:
            yield f"{len(role.replica_listeners)} followers that listen at {replica.name}"
    shards = getattr(process, "shards", None)
    streams = sum(len(host.sessions) for host in shards.hosts()) if shards is not None else 0
    if streams > clients:
        yield f"{streams} streams of members"


def _replicas(process: Any) -> list[Any]:
    replicas = getattr(process, "replicas", None)
    return [] if replicas is None else list(replicas.partitions.values())


def _tasks(node: Node) -> Counter[str]:
    owner = node.owner
    found = [] if owner is None else owner.unfinished()
    return Counter(getattr(task.get_coro(), "__qualname__", "?") for task in found)


def _timers(node: Node) -> Counter[str]:
    """Those of the process, and none by which the simulation carries its messages."""
    found = [handle.callback for handle in node.loop.timers_of(node.owner)]
    return Counter(
        getattr(callback, "__qualname__", "?")
        for callback in found
        if not str(getattr(callback, "__module__", "")).startswith("strandline_proof.sim")
    )
