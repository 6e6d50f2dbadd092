"""The files of a local cluster besides data: its addresses in `cluster.json`, and one TOML file
for each process.

DIR/cluster.json            addresses and overrides, kept over restarts
DIR/controller.toml         configuration of the controller
DIR/broker-1.toml ...       configuration of each broker
DIR/controller/  DIR/broker-1/ ...   the data directories
DIR/logs/*.log  DIR/run/*.pid
"""

import json
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from strandline_local.errors import ClusterError, UsageMistake
from strandline_local.listeners import GRPC, KAFKA, ListenerAddress
from strandline_runtime.real import port_is_free, reserve_port

CONTROLLER: Final = "controller"
CONTROLLER_NODE_ID: Final = 0
DEFAULT_PORT: Final = 9092
GRPC_DISTANCE: Final = 10_000
"""Distance of a broker's port for gRPC from its port for Kafka's protocol."""
HOST: Final = "127.0.0.1"
REPLICAS: Final = 3
"""The default number of replicas."""
_VERSION: Final = 1

# Below the range that systems hand to outgoing connections, so that a port kept in cluster.json
# is not taken by one while its process is down.
_FREE_PORTS: Final = range(20_000, 32_000)
_PORT_MAX: Final = 65_535
_GROUPS_REPLICAS: Final = "offsets.topic.replication.factor"
_TRANSACTIONS_REPLICAS: Final = "transaction.state.log.replication.factor"
_NAMES_LISTENERS: Final = frozenset({"advertised.listeners", "inter.broker.listener.name"})


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """The contents of `cluster.json`."""

    controller_port: int
    broker_ports: Mapping[int, int]
    """The port of each broker that serves both protocols: Kafka's protocol, and gRPC by passing it
    on. In a directory of an earlier build the port serves gRPC alone.
    """
    grpc_ports: Mapping[int, int] = field(default_factory=dict)
    """The ports for gRPC alone, also of decommissioned brokers. Empty in a directory of an earlier
    build.
    """
    host: str = HOST
    controller_config: Mapping[str, str] = field(default_factory=dict)
    broker_config: Mapping[str, str] = field(default_factory=dict)
    decommissioned: Mapping[int, int] = field(default_factory=dict)
    """Brokers that have left the cluster, and their ports, which stay reserved."""
    metrics_ports: Mapping[int, int] = field(default_factory=dict)
    """The HTTP port of each process for metrics and health, by node id; empty: they have none."""

    def without(self, broker_id: int) -> "ClusterFile":
        """The contents after that broker has left."""
        left = dict(self.broker_ports)
        gone = {**self.decommissioned, broker_id: left.pop(broker_id)}
        return replace(self, broker_ports=left, decommissioned=gone)

    def with_again(self, broker_id: int) -> "ClusterFile":
        """The contents after that broker has returned."""
        gone = dict(self.decommissioned)
        ports = {**self.broker_ports, broker_id: gone.pop(broker_id)}
        return replace(self, broker_ports=dict(sorted(ports.items())), decommissioned=gone)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers for clients of both protocols."""
        return ",".join(map(self.broker_address, self.broker_ports))

    @property
    def grpc_bootstrap(self) -> str:
        """Addresses of all brokers for gRPC alone."""
        return ",".join(map(self.grpc_address, self.broker_ports))

    @property
    def kafka_bootstrap(self) -> str | None:
        """Addresses of all brokers for Kafka's clients; None in a directory of an earlier build."""
        return self.bootstrap if self.grpc_ports else None

    @property
    def controller_address(self) -> str:
        return f"{self.host}:{self.controller_port}"

    def broker_address(self, broker_id: int) -> str:
        return f"{self.host}:{self.broker_ports[broker_id]}"

    def grpc_address(self, broker_id: int) -> str:
        return f"{self.host}:{self.grpc_ports.get(broker_id, self.broker_ports[broker_id])}"

    def metrics_address(self, node_id: int) -> str | None:
        """The address for metrics and health of that process; None if it has none."""
        port = self.metrics_ports.get(node_id)
        return None if port is None else f"{self.host}:{port}"

    def listeners(self, broker_id: int) -> list[ListenerAddress]:
        """The broker's listeners. Brokers derive the protocols from the names; an earlier build
        speaks gRPC on both.
        """
        address = self.broker_address(broker_id)
        if broker_id not in self.grpc_ports:
            return [ListenerAddress("PLAINTEXT", GRPC, address)]
        return [
            ListenerAddress("PLAINTEXT", KAFKA, address),
            ListenerAddress("GRPC", GRPC, self.grpc_address(broker_id)),
        ]

    def to_json(self) -> str:
        document = {
            "version": _VERSION,
            "bootstrap": self.bootstrap,  # for programs that only want to find the cluster
            "host": self.host,
            "controller": {"port": self.controller_port, "config": dict(self.controller_config)},
            "brokers": [self._ports(i, port) for i, port in self.broker_ports.items()],
            "broker_config": dict(self.broker_config),
            "decommissioned": [self._ports(i, port) for i, port in self.decommissioned.items()],
            "metrics_ports": {str(i): port for i, port in self.metrics_ports.items()},
        }
        return json.dumps(document, indent=2) + "\n"

    def _ports(self, broker_id: int, port: int) -> dict[str, int]:
        grpc = self.grpc_ports.get(broker_id)
        return {"id": broker_id, "port": port} | ({} if grpc is None else {"grpc_port": grpc})

    @classmethod
    def from_json(cls, text: str) -> "ClusterFile":
        document: dict[str, Any] = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']} is not {_VERSION}")
        decommissioned = document.get("decommissioned", [])
        return cls(
            host=str(document["host"]),
            controller_port=int(document["controller"]["port"]),
            controller_config=dict(document["controller"]["config"]),
            broker_ports={int(b["id"]): int(b["port"]) for b in document["brokers"]},
            grpc_ports={
                int(b["id"]): int(b["grpc_port"])
                for b in (*document["brokers"], *decommissioned)
                if "grpc_port" in b
            },
            broker_config=dict(document["broker_config"]),
            decommissioned={int(b["id"]): int(b["port"]) for b in decommissioned},
            metrics_ports={int(i): int(p) for i, p in document.get("metrics_ports", {}).items()},
        )


def new_cluster_file(
    *,
    brokers: int,
    port: int,
    controller_config: Mapping[str, str] | None = None,
    broker_config: Mapping[str, str] | None = None,
) -> ClusterFile:
    """Addresses for a new cluster: brokers from `port` upwards, the controller below it, and gRPC
    10,000 above it (below it where no port is above); free ones if it is 0.
    """
    check_count(brokers)
    if port == 0:
        controller_port, *free = free_ports(2 * brokers + 1)
        broker_ports, grpc_ports = free[:brokers], free[brokers:]
    else:
        if not 1 < port <= _PORT_MAX - brokers + 1:
            raise UsageMistake(
                f"port {port} leaves no room for a controller below it and {brokers} brokers from"
                " it: use 2 to 65535, or 0 for free ports"
            )
        controller_port, broker_ports = port - 1, list(range(port, port + brokers))
        first = _grpc_port(port) if _grpc_port(broker_ports[-1]) > port else port - GRPC_DISTANCE
        grpc_ports = list(range(first, first + brokers))
    return ClusterFile(
        controller_port=controller_port,
        broker_ports={1 + n: p for n, p in enumerate(broker_ports)},
        grpc_ports={1 + n: p for n, p in enumerate(grpc_ports)},
        controller_config={**_replicas(brokers), **(controller_config or {})},
        broker_config=dict(broker_config or {}),
    )


def check_count(brokers: int) -> None:
    """Raises UsageMistake for a number of brokers that no cluster has."""
    if brokers < 1:
        raise UsageMistake(f"a cluster needs at least one broker, not {brokers}")


def with_metrics(cluster: ClusterFile, port: int) -> ClusterFile:
    """The cluster with an HTTP port for each process: `port` plus its node id, so the controller's
    comes first; 0: the ports that it has, or free ones. Raises UsageMistake for ports that it uses.
    """
    ids = [CONTROLLER_NODE_ID, *sorted((*cluster.broker_ports, *cluster.decommissioned))]
    taken = {
        cluster.controller_port,
        *cluster.broker_ports.values(),
        *cluster.grpc_ports.values(),
        *cluster.decommissioned.values(),
    }
    if port == 0:
        kept = cluster.metrics_ports
        has_all = all(i in kept for i in ids)
        ports = (
            kept if has_all else dict(zip(ids, free_ports(len(ids), without=taken), strict=True))
        )
    else:
        ports = {i: port + i for i in ids}
        if (last := max(ports.values())) > _PORT_MAX:
            raise UsageMistake(
                f"--metrics-port {port} needs the ports up to {last}, and 65535 is the last one:"
                " use a lower port, or 0 for free ports"
            )
        if both := sorted(taken.intersection(ports.values())):
            raise UsageMistake(
                f"--metrics-port {port} needs the ports {port} to {last}, but port {both[0]} is one"
                " of the cluster's own: use another port, or 0 for free ports"
            )
    without = {"metrics.listeners"}  # set by an earlier build's --config, for all processes alike
    return replace(
        cluster,
        metrics_ports=ports,
        controller_config={k: v for k, v in cluster.controller_config.items() if k not in without},
        broker_config={k: v for k, v in cluster.broker_config.items() if k not in without},
    )


def _grpc_port(port: int) -> int:
    """The usual port for gRPC beside `port`."""
    above = port + GRPC_DISTANCE
    return above if above <= _PORT_MAX else port - GRPC_DISTANCE


def with_kafka(kept: ClusterFile) -> ClusterFile:
    """The cluster of an earlier build with a port for gRPC at each broker. Its former ports serve
    both protocols from then on.

    A cluster whose configuration names its one listener is left as it is.
    """
    if kept.grpc_ports or not _NAMES_LISTENERS.isdisjoint(kept.broker_config):
        return kept
    ports = {**kept.broker_ports, **kept.decommissioned}
    usual = {broker_id: _grpc_port(port) for broker_id, port in ports.items()}
    taken = {*ports.values(), *usual.values(), kept.controller_port}
    others = [i for i, port in ports.items() if not _is_usable(usual[i], beside=port)]
    spare = free_ports(len(others), without=taken) if others else []
    return replace(kept, grpc_ports={**usual, **dict(zip(others, spare, strict=True))})


def with_transactions(kept: ClusterFile) -> ClusterFile:
    """The cluster of an earlier build with as many replicas of the transactions' topic as it has
    of the groups' topic. By default it would have more than there are brokers.
    """
    of_groups = kept.controller_config.get(_GROUPS_REPLICAS)
    if of_groups is None or _TRANSACTIONS_REPLICAS in kept.controller_config:
        return kept
    config = {**kept.controller_config, _TRANSACTIONS_REPLICAS: of_groups}
    return replace(kept, controller_config=config)


def _is_usable(port: int, *, beside: int) -> bool:
    """True if the usual port for gRPC can be taken. Beside a free port that was chosen at random,
    it would lie among the ports of outgoing connections.
    """
    return beside not in _FREE_PORTS and port_is_free(HOST, port)


def _replicas(brokers: int) -> dict[str, str]:
    """Replicas of topics and of the coordinators' topics where there are fewer brokers than by
    default. Otherwise none could be created.
    """
    if brokers >= REPLICAS:
        return {}
    return {
        "default.replication.factor": str(brokers),
        _GROUPS_REPLICAS: str(brokers),
        _TRANSACTIONS_REPLICAS: str(brokers),
    }


def free_ports(count: int, host: str = HOST, *, without: Collection[int] = ()) -> list[int]:
    """Ports that are reserved for servers to start now, below the range of outgoing connections."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_FREE_PORTS, len(_FREE_PORTS)):
        if port not in without and reserve_port(host, port):
            found.append(port)
        if len(found) == count:
            return found
    raise ClusterError(
        f"fewer than {count} free ports between 20000 and 32000 on {host}: free some"
    )


def read_cluster_file(directory: Path) -> ClusterFile | None:
    """The directory's addresses, or None if no cluster was started there yet."""
    path = directory / "cluster.json"
    try:
        return ClusterFile.from_json(path.read_text())
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise UsageMistake(f"{directory} is not a directory: name another with --dir") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError) as why:
        raise ClusterError(
            f"{path} cannot be read as a cluster's description ({why}): restore it, or use another"
            " --dir"
        ) from why


def check_resumes(
    directory: Path, kept: ClusterFile, *, brokers: int | None, port: int | None
) -> None:
    """Raises UsageMistake if `up` requests another cluster than the one that is there. A
    decommissioned broker does not count, and -n brings none back.
    """
    if brokers is not None and brokers != len(kept.broker_ports):
        gone = "".join(f"; {_how_it_returns(b)}" for b in kept.decommissioned)
        raise UsageMistake(
            f"the cluster in {directory} has {len(kept.broker_ports)} brokers, not {brokers}:"
            f" leave out -n, or use another --dir{gone}"
        )
    first = min((*kept.broker_ports.values(), *kept.decommissioned.values()))
    if port not in (None, 0, first):
        raise UsageMistake(
            f"the cluster in {directory} keeps its ports ({kept.bootstrap}): leave out --port,"
            " or use another --dir"
        )


def check_not_decommissioned(cluster: ClusterFile, name: str) -> None:
    """Raises UsageMistake if `name` (`3` or `broker-3`) is a broker that has left."""
    for broker_id in cluster.decommissioned:
        if name in (str(broker_id), f"broker-{broker_id}"):
            raise UsageMistake(_how_it_returns(broker_id))


def _how_it_returns(broker_id: int) -> str:
    return (
        f"broker {broker_id} was decommissioned and has left the cluster: `strandline broker"
        f" decommission {broker_id} --undo` takes it in again, as a new and empty member"
    )


def write_cluster_files(directory: Path, cluster: ClusterFile) -> None:
    """Write `cluster.json` and the TOML file of each process."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _replace(directory / "controller.toml", to_toml(controller_keys(directory, cluster)))
        for broker_id in cluster.broker_ports:
            keys = broker_keys(directory, cluster, broker_id)
            _replace(directory / f"broker-{broker_id}.toml", to_toml(keys))
        _replace(directory / "cluster.json", cluster.to_json())
    except (FileExistsError, NotADirectoryError):
        raise UsageMistake(f"{directory} is not a directory: name another with --dir") from None
    except OSError as why:
        raise ClusterError(
            f"cannot write the cluster's files in {directory}: {why.strerror}"
        ) from why


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


def controller_keys(directory: Path, cluster: ClusterFile) -> dict[str, str | int]:
    """The controller's configuration, overrides last."""
    return {
        "node.id": CONTROLLER_NODE_ID,
        "listeners": f"CONTROLLER://{cluster.controller_address}",
        "log.dirs": str(directory / CONTROLLER),
        **_metrics_keys(cluster, CONTROLLER_NODE_ID),
        **cluster.controller_config,
    }


def broker_keys(directory: Path, cluster: ClusterFile, broker_id: int) -> dict[str, str | int]:
    """One broker's configuration, overrides last."""
    return {
        "node.id": broker_id,
        "listeners": ",".join(f"{e.listener}://{e.address}" for e in cluster.listeners(broker_id)),
        "controller.quorum.bootstrap.servers": cluster.controller_address,
        "log.dirs": str(directory / f"broker-{broker_id}"),
        **_metrics_keys(cluster, broker_id),
        **cluster.broker_config,
    }


def _metrics_keys(cluster: ClusterFile, node_id: int) -> dict[str, str]:
    address = cluster.metrics_address(node_id)
    return {} if address is None else {"metrics.listeners": address}


def to_toml(keys: Mapping[str, str | int]) -> str:
    """Quoted keys, so that none of them can clash with the table that another one implies."""
    lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"
