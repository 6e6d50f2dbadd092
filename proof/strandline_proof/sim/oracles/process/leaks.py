"""I-182: tasks, timers and streams that a process keeps without need.

A process that ends in order has ended each of its tasks first, except calls that are cancelled. A
client has ended its timers too, as its program may go on without it. When everything is well and
the clients have gone, a server has nothing left of them: no member's stream, no waiting producer,
no listening consumer. Its state for the other running processes does not grow with past events. It
has a task of each kind for itself or for each of them, a few calls and connections, a listener for
each follower, and no more timers than tasks that wait for them.
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
"""The task that is the process, and gRPC's tasks for each call until its end is reported."""
HANDLER: Final = "ServerCall._run"
"""The task of a call at its server, whichever call it is. A gRPC server that stops cancels the
handlers that outlast its grace, and does not wait for their ends.
"""
LOOPS: Final = 4
"""Tasks of one kind that a server has for itself: a disk is flushed by four."""
CALLS: Final = 3
"""Calls of one process at a server: heartbeats, pushes or fetches, and one that comes and goes."""
FILES_EVERY: Final = 4
"""Seeds per check of files: the check first collects garbage in cycles, which takes its time."""
CONNECTIONS: Final = 4
"""Connections between two servers, as each opens one for each purpose."""


def left_by(node: Node, *, is_server: bool) -> str:
    """Unfinished tasks of a process that ends in order, in this step; empty if none."""
    tasks = [kind for kind in _tasks(node).elements() if kind not in (*NOT_ITS_OWN, HANDLER)]
    timers = () if is_server else _timers(node).elements()
    return ", ".join([*(f"task {kind}" for kind in tasks), *(f"timer {kind}" for kind in timers)])


def left_behind(world: World, seed: int) -> str:
    """Leftovers at servers when the clients have gone; empty if none. Some seeds check open files
    too.
    """
    return left_at_servers(world) or (left_open(world) if seed % FILES_EVERY == 0 else "")


def left_at_servers(world: World) -> str:
    """Leftovers at servers of the clients that have gone; empty if none."""
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
    """Kinds of tasks with more than one for each other process."""
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
    """Waiters and listeners beyond those of the processes that still run."""
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
    streams = (
        sum(len(shard.sessions) for shard in shards.applications()) if shards is not None else 0
    )
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
    """Timers of the process, without those by which the simulation carries its messages."""
    found = [handle.callback for handle in node.loop.timers_of(node.owner)]
    return Counter(
        getattr(callback, "__qualname__", "?")
        for callback in found
        if not str(getattr(callback, "__module__", "")).startswith("strandline_proof.sim")
    )
