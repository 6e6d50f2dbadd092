"""A whole cluster in one process: real servers and real clients on simulated machines.

`World` holds the nodes and what they share. `run.py` decides what happens to them and checks what
must hold.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

from strandline_broker.app import Broker
from strandline_broker.controller_app import ControllerProcess
from strandline_broker.hosts.groups import coordinator as groups_coordinator
from strandline_broker.hosts.transactions import coordinator as transactions_coordinator
from strandline_chaos.history import History
from strandline_proof.sim.cluster.node import Node
from strandline_proof.sim.groups.member import run_member
from strandline_proof.sim.groups.outsiders import run_committer, run_group_admin
from strandline_proof.sim.groups.scene import Groups
from strandline_proof.sim.kafka.member import run_classic_member
from strandline_proof.sim.loop.loop import SimLoop
from strandline_proof.sim.loop.timeline import Timeline
from strandline_proof.sim.network.network import SimNetwork
from strandline_proof.sim.topology.groups import CLASSIC
from strandline_proof.sim.topology.topology import (
    ADDED_MAX,
    COMMITTER,
    CONTROLLER,
    GROUP_ADMIN,
    LOOSE,
    METADATA_MAX_AGE_MS,
    READER,
    SEEKER,
    WRITER,
    Topology,
    broker_config,
    broker_id,
    controller_config,
)
from strandline_proof.sim.topology.transactions import KAFKA, LEDGER
from strandline_proof.sim.transactions.copier import run_copier
from strandline_proof.sim.transactions.kafka_teller import run_kafka_teller
from strandline_proof.sim.transactions.ledger import Ledger
from strandline_proof.sim.transactions.readers import run_readers
from strandline_proof.sim.transactions.teller import run_teller
from strandline_proof.sim.workload.clients import run_reader, run_writer
from strandline_proof.sim.workload.low_acks import run_loose
from strandline_proof.sim.workload.seeker import run_seeker
from strandline_proof.sim.workload.told_clients import Clients
from strandline_proof.sim.workload.work_clients import Stamps

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from strandline_runtime.runtime import Runtime

VERSION = "simulated"
RESTART_S = (0.05, 1.0)
"""The delay after which a process that ended by itself is restarted, as by a supervisor."""

# A broker without it imports it on a thread, which the first run of a process would do alone.
for code in (groups_coordinator.CODE, transactions_coordinator.CODE):
    code.load()


class World:
    def __init__(self, seed: int, topology: Topology) -> None:
        self.seed = seed
        self.topology = topology
        self.rng = random.Random(seed)
        self.loop = SimLoop()
        self.timeline = Timeline(self.loop)
        self.network = SimNetwork(
            random.Random(self.rng.getrandbits(64)),
            now=lambda: self.loop.now,
            post=self.loop.post,
            deliver=self.loop.deliver,
            others_are_due=self.loop.others_are_due,
        )
        self.history = History(None, lambda: int(self.loop.now * 1e9))
        self.partitions = topology.partitions
        """The number of the topic's partitions: more, once more are committed."""
        self.metadata_max_age_ms = METADATA_MAX_AGE_MS
        """The clients' metadata age."""
        self.values = [itertools.count() for _ in range(topology.partitions + ADDED_MAX)]
        """The next value of each key, over all lives of the writer."""
        self.on_exit: Callable[[Node, str], None] = lambda node, why: None
        """Called when a process ends by itself, with its reason; empty for an orderly stop."""
        self.groups = Groups(self)
        self.stamps = Stamps(self)
        self.clients = Clients(self)
        self.ledger = Ledger(self)
        self.nodes: dict[str, Node] = {}
        for name in topology.nodes:
            self.add_node(name, self._main_of(name))
        for name in topology.member_names:
            self.groups.watch(self.nodes[name])
        self.members = {broker_id(name): self.nodes[name] for name in topology.broker_names}
        """The machine whose process the controller counts as each broker: the one of that name,
        except for a while after another one has registered under its id (P-71).
        """
        self.doubles: list[Node] = []
        """Processes outside the topology that pose as one of its servers."""

    @property
    def brokers(self) -> list[Node]:
        return [self.nodes[name] for name in self.topology.broker_names]

    @property
    def controller(self) -> Node:
        return self.nodes[CONTROLLER]

    def add_node(self, name: str, main: Any) -> Node:
        """A machine that is not running yet."""
        rng = random.Random(self.rng.getrandbits(64))
        node = Node(name, self.loop, rng, self.timeline, self.network, main)
        node.on_exit = self._on_exit
        self.nodes[name] = node
        return node

    def add_double(self, what: str, like: Node) -> Node:
        """A stopped process that poses as the server on `like` once it runs. Its name and its
        address are its own.
        """
        number = broker_id(like.name) if like is not self.controller else CONTROLLER
        name = f"{what}{len(self.doubles) + 1}-{number}"
        main = self._run_controller if like is self.controller else self._run_broker
        double = self.add_node(name, main)
        self.doubles.append(double)
        return double

    def _main_of(self, name: str) -> Any:
        if name == CONTROLLER:
            return self._run_controller
        if name == WRITER:
            return lambda node, runtime, stop: run_writer(self, runtime, stop)
        if name == READER:
            return lambda node, runtime, stop: run_reader(self, runtime, stop)
        if name in (SEEKER, LOOSE):
            runs = run_seeker if name == SEEKER else run_loose
            return lambda node, runtime, stop: runs(self, node, runtime, stop)
        if name == COMMITTER:
            return lambda node, runtime, stop: run_committer(self, node, runtime, stop)
        if name == GROUP_ADMIN:
            return lambda node, runtime, stop: run_group_admin(self, node, runtime, stop)
        if name in self.topology.member_names:
            group, member = (int(word) for word in name.split("-")[1:])
            run = run_member
            if self.topology.groups[group].protocol == CLASSIC:
                run = run_classic_member
            return lambda node, runtime, stop: run(self, node, runtime, stop, group, member)
        if name in self.topology.transactors:
            transacts = self._transactor(name)
            return lambda node, runtime, stop: transacts(self, node, runtime, stop)
        return self._run_broker

    def _transactor(self, name: str) -> Any:
        transactions = self.topology.transactions
        assert transactions is not None
        if name == LEDGER:
            return run_readers
        if name in transactions.copier_names:
            return run_copier
        kind = transactions.tellers[transactions.teller_names.index(name)]
        return run_kafka_teller if kind == KAFKA else run_teller

    async def _run_controller(self, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        config: Any = controller_config(self.topology, node.name)
        has_groups = self.topology.offsets_partitions > 0
        has_transactions = self.topology.transactions is not None
        node.process = ControllerProcess(
            runtime, config, VERSION, has_groups=has_groups, has_transactions=has_transactions
        )
        await node.process.run(stop)

    async def _run_broker(self, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        config: Any = broker_config(self.topology, node.name)
        node.process = Broker(runtime, config, VERSION)
        await node.process.run(stop)

    def _on_exit(self, node: Node, why: str) -> None:
        if node.name in self.topology.servers:
            self.loop.post(self.rng.uniform(*RESTART_S), None, node.start)
        self.on_exit(node, why)

    def close(self) -> None:
        """Ends the run: code that is cut off may have no effect."""
        self.timeline.closed = True
        for node in self.nodes.values():
            node.halt()
        self.loop.close()
