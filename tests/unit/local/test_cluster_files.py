"""The directory of a local cluster: addresses that last, and one configuration file a process."""

import json
import os
import socket
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.config.loading import load_broker_config, load_controller_config
from strandline_local import cluster_files
from strandline_local.cluster_files import (
    ClusterFile,
    broker_keys,
    controller_keys,
    free_ports,
    new_cluster_file,
    read_cluster_file,
    to_toml,
    with_kafka,
    with_metrics,
    with_transactions,
    write_cluster_files,
)
from strandline_local.errors import ClusterError, UsageMistake
from strandline_local.listeners import ListenerAddress
from strandline_local.local_cluster import LocalCluster
from strandline_local.overrides import split_overrides
from strandline_local.processes import start_identity
from strandline_runtime.real import port_is_free


def test_default_ports_are_the_brokers_upwards_and_the_controller_below() -> None:
    cluster = new_cluster_file(brokers=3, port=9092)
    assert cluster.controller_port == 9091
    assert dict(cluster.broker_ports) == {1: 9092, 2: 9093, 3: 9094}
    assert cluster.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


def test_kafkas_protocol_has_the_first_ports_and_grpc_those_ten_thousand_above() -> None:
    cluster = new_cluster_file(brokers=3, port=9092)
    assert dict(cluster.grpc_ports) == {1: 19092, 2: 19093, 3: 19094}
    assert cluster.kafka_bootstrap == cluster.bootstrap
    assert cluster.grpc_bootstrap == "127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094"
    assert cluster.listeners(2) == [
        ListenerAddress("PLAINTEXT", "kafka", "127.0.0.1:9093"),
        ListenerAddress("GRPC", "grpc", "127.0.0.1:19093"),
    ]


@pytest.mark.parametrize(
    ("port", "first"),
    [(55_533, 65_533), (55_534, 45_534), (65_533, 55_533), (2, 10_002)],
)
def test_grpc_lies_below_where_no_port_is_above(port: int, first: int) -> None:
    cluster = new_cluster_file(brokers=3, port=port)
    assert dict(cluster.grpc_ports) == {1: first, 2: first + 1, 3: first + 2}


def test_port_zero_takes_free_ports_all_different() -> None:
    cluster = new_cluster_file(brokers=3, port=0)
    ports = [
        cluster.controller_port,
        *cluster.broker_ports.values(),
        *cluster.grpc_ports.values(),
    ]
    assert len(set(ports)) == 7
    assert all(port_is_free("127.0.0.1", port) for port in ports)


def test_a_topic_has_no_more_replicas_by_default_than_a_new_cluster_has_brokers() -> None:
    keys = (
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    )
    configs = {n: new_cluster_file(brokers=n, port=9092).controller_config for n in (1, 2, 3, 4)}
    assert configs == {1: dict.fromkeys(keys, "1"), 2: dict.fromkeys(keys, "2"), 3: {}, 4: {}}
    for key in keys:
        told = new_cluster_file(brokers=2, port=9092, controller_config={key: "1"})
        assert told.controller_config == {**dict.fromkeys(keys, "2"), key: "1"}


def test_a_small_cluster_of_an_earlier_build_gets_the_replicas_of_the_transactions_topic() -> None:
    groups, transactions = (
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    )
    made = new_cluster_file(brokers=2, port=9092)
    kept = replace(made, controller_config={groups: "2"})
    assert with_transactions(kept).controller_config == {groups: "2", transactions: "2"}
    told = replace(made, controller_config={groups: "2", transactions: "1"})
    assert with_transactions(told) is told
    large = new_cluster_file(brokers=3, port=9092)
    assert with_transactions(large) is large


def test_a_resumed_small_cluster_can_begin_transactions(tmp_path: Path) -> None:
    key = "transaction.state.log.replication.factor"
    made = new_cluster_file(brokers=1, port=0)
    kept = {name: value for name, value in made.controller_config.items() if name != key}
    write_cluster_files(tmp_path, replace(made, controller_config=kept))
    assert LocalCluster.create(tmp_path).file.controller_config[key] == "1"


def test_free_ports_stay_below_those_of_outgoing_connections() -> None:
    assert all(20_000 <= port < 32_000 for port in free_ports(5))


def test_a_free_port_is_reserved_until_a_server_listens_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(cluster_files, "_FREE_PORTS", [port])
    with pytest.raises(ClusterError, match="fewer than 1 free ports"):
        free_ports(1)
    with socket.create_server(("127.0.0.1", port)):  # with SO_REUSEADDR, as servers listen
        pass


def test_ports_that_a_cluster_has_are_not_taken_as_free_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are free while the cluster is down."""
    ports = [20_001, 20_002, 20_003, 20_004]
    monkeypatch.setattr(cluster_files, "_FREE_PORTS", ports)
    monkeypatch.setattr(cluster_files, "reserve_port", lambda *_: True)
    assert sorted(free_ports(2, without=ports[:2])) == sorted(ports[2:])


@pytest.mark.parametrize(
    ("brokers", "port"), [(3, 1), (3, 65_534), (1, 65_536), (0, 9092), (-1, 0)]
)
def test_a_cluster_that_cannot_be_is_a_mistake_of_usage(brokers: int, port: int) -> None:
    with pytest.raises(UsageMistake):
        new_cluster_file(brokers=brokers, port=port)


def test_addresses_and_overrides_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    cluster = ClusterFile(
        controller_port=7000,
        broker_ports={1: 7001, 2: 7002},
        grpc_ports={1: 8001, 2: 8002, 3: 8003},
        decommissioned={3: 7003},
        controller_config={"num.partitions": "3"},
        broker_config={"flush.policy": "always"},
    )
    write_cluster_files(tmp_path / "new", cluster)
    assert read_cluster_file(tmp_path / "new") == cluster


def test_a_directory_without_a_cluster_reads_as_none(tmp_path: Path) -> None:
    assert read_cluster_file(tmp_path) is None
    assert read_cluster_file(tmp_path / "absent") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 99}'])
def test_a_damaged_description_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ClusterError, match=r"cluster\.json cannot be read"):
        read_cluster_file(tmp_path)


def test_a_file_in_place_of_the_directory_is_a_mistake_of_usage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageMistake, match="not a directory"):
        LocalCluster.create(tmp_path / "file", port=0)


def test_configuration_files_hold_addresses_directories_and_overrides(tmp_path: Path) -> None:
    cluster = ClusterFile(
        controller_port=7000,
        broker_ports={1: 7001},
        grpc_ports={1: 8001},
        controller_config={"num.partitions": "3"},
        broker_config={"log.segment.bytes": "1048576"},
    )
    write_cluster_files(tmp_path, cluster)
    assert tomllib.loads((tmp_path / "controller.toml").read_text()) == {
        "node.id": 0,
        "listeners": "CONTROLLER://127.0.0.1:7000",
        "log.dirs": str(tmp_path / "controller"),
        "num.partitions": "3",
    }
    assert tomllib.loads((tmp_path / "broker-1.toml").read_text()) == {
        "node.id": 1,
        "listeners": "PLAINTEXT://127.0.0.1:7001,GRPC://127.0.0.1:8001",
        "controller.quorum.bootstrap.servers": "127.0.0.1:7000",
        "log.dirs": str(tmp_path / "broker-1"),
        "log.segment.bytes": "1048576",
    }


def test_servers_accept_the_files_that_are_written_for_them(tmp_path: Path) -> None:
    write_cluster_files(tmp_path, new_cluster_file(brokers=2, port=9092))
    broker = load_broker_config(str(tmp_path / "broker-2.toml"), {}, {})
    controller = load_controller_config(str(tmp_path / "controller.toml"), {}, {})
    assert (broker.node_id, broker.listeners[0].port) == (2, 9093)
    assert (controller.node_id, controller.listeners[0].port) == (0, 9091)


def test_keys_cannot_break_the_toml_they_are_written_in() -> None:
    keys: dict[str, str | int] = {'a"b\n': 'c"\\d\n', "log": "x", "log.dirs": "y", "n": 1}
    assert tomllib.loads(to_toml(keys)) == keys


def test_overrides_win_over_what_the_cluster_sets(tmp_path: Path) -> None:
    cluster = ClusterFile(
        controller_port=1, broker_ports={1: 2}, broker_config={"broker.rack": "r"}
    )
    assert broker_keys(tmp_path, cluster, 1)["broker.rack"] == "r"
    assert "broker.rack" not in controller_keys(tmp_path, cluster)


def test_an_existing_cluster_keeps_its_ports_and_gathers_overrides(tmp_path: Path) -> None:
    first = LocalCluster.create(
        tmp_path, brokers=2, port=0, broker_config={"flush.policy": "always"}
    )
    again = LocalCluster.create(tmp_path, port=0, broker_config={"log.segment.bytes": "1000000"})
    assert again.bootstrap == first.bootstrap
    assert again.file.broker_config == {"flush.policy": "always", "log.segment.bytes": "1000000"}
    assert LocalCluster.open(tmp_path).file == again.file


def test_an_existing_cluster_refuses_another_number_of_brokers_or_other_ports(
    tmp_path: Path,
) -> None:
    LocalCluster.create(tmp_path, brokers=2, port=0)
    with pytest.raises(UsageMistake, match="has 2 brokers, not 3"):
        LocalCluster.create(tmp_path, brokers=3)
    with pytest.raises(UsageMistake, match="keeps its ports"):
        LocalCluster.create(tmp_path, port=1)


def test_a_broker_that_has_left_is_not_started_by_the_next_up_and_keeps_its_port(
    tmp_path: Path,
) -> None:
    cluster = LocalCluster.create(tmp_path, brokers=3, port=0)
    first, leaver = min((port, broker) for broker, port in cluster.file.broker_ports.items())
    cluster.keep(cluster.file.without(leaver))
    left = LocalCluster.create(tmp_path, port=first)
    assert left.process_ids == ["controller", *({1, 2, 3} - {leaver})]
    assert cluster.address(leaver) not in left.bootstrap
    left.keep(left.file.with_again(leaver))
    again = LocalCluster.open(tmp_path)
    assert again.file == cluster.file
    assert again.bootstrap == cluster.bootstrap


def test_a_broker_that_has_left_is_named_with_the_way_back(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path, brokers=3, port=0)
    cluster.keep(cluster.file.without(3))
    left = LocalCluster.open(tmp_path)
    for name in (3, "3", "broker-3"):
        with pytest.raises(UsageMistake, match=r"broker 3 was decommissioned .* 3 --undo"):
            left.process(name)
    with pytest.raises(UsageMistake, match=r"has 2 brokers, not 3: .* decommission 3 --undo"):
        LocalCluster.create(tmp_path, brokers=3)
    with pytest.raises(UsageMistake, match=r"no process 4 .* it has controller, 1, 2"):
        left.process(4)
    assert LocalCluster.create(tmp_path, brokers=2).broker_ids == [1, 2]


def test_a_description_of_before_brokers_could_leave_is_read(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path, brokers=1, port=0)
    document = json.loads(cluster.file.to_json())
    del document["decommissioned"]
    assert ClusterFile.from_json(json.dumps(document)) == cluster.file


def test_a_configuration_that_servers_would_refuse_leaves_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match=r"did you mean log\.segment\.bytes"):
        LocalCluster.create(tmp_path / "new", port=0, broker_config={"log.segment.byte": "1"})
    assert not (tmp_path / "new").exists()


def test_opening_a_directory_without_a_cluster_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="strandline up --dir"):
        LocalCluster.open(tmp_path)


def test_an_unknown_process_is_refused_with_those_there_are(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path, brokers=2, port=0)
    with pytest.raises(UsageMistake, match=r"no process 7 .* it has controller, 1, 2"):
        cluster.process(7)
    assert cluster.process("2") is cluster.process(2)
    assert cluster.process("broker-2") is cluster.process(2)


def earlier(directory: Path, **broker_config: str) -> ClusterFile:
    """A directory as an earlier build has left it: one listener for each broker."""
    ports = free_ports(3)
    kept = ClusterFile(
        controller_port=ports[0],
        broker_ports={1: ports[1]},
        decommissioned={2: ports[2]},
        broker_config={name.replace("_", "."): value for name, value in broker_config.items()},
    )
    write_cluster_files(directory, kept)
    assert '"grpc_port"' not in (directory / "cluster.json").read_text()
    assert f'"PLAINTEXT://127.0.0.1:{ports[1]}"' in (directory / "broker-1.toml").read_text()
    return kept


def test_a_directory_of_an_earlier_build_gets_ports_for_grpc_at_the_next_up(
    tmp_path: Path,
) -> None:
    kept = earlier(tmp_path)
    opened = LocalCluster.open(tmp_path)
    assert opened.grpc_address(1) == opened.address(1) == opened.bootstrap
    assert opened.file.kafka_bootstrap is None
    assert opened.listeners(1) == [ListenerAddress("PLAINTEXT", "grpc", opened.address(1))]
    again = LocalCluster.create(tmp_path)
    assert again.bootstrap == opened.bootstrap == again.file.kafka_bootstrap
    ports = [
        *kept.broker_ports.values(),
        *kept.decommissioned.values(),
        *again.file.grpc_ports.values(),
        kept.controller_port,
    ]
    assert set(again.file.grpc_ports) == {1, 2}
    assert len(set(ports)) == len(ports)
    assert LocalCluster.open(tmp_path).file == again.file
    assert LocalCluster.create(tmp_path).file == again.file
    config = load_broker_config(str(tmp_path / "broker-1.toml"), {}, {})
    assert [each.protocol.name for each in config.listeners] == ["KAFKA", "GRPC"]


def test_the_usual_port_beside_a_chosen_one_is_taken_if_it_is_free() -> None:
    kept = ClusterFile(controller_port=19_999, broker_ports={1: 9092, 2: 9093})
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 19_093))
        except OSError:
            pass  # another process has it, which is as well
        else:
            taken.listen()
        ports = with_kafka(kept).grpc_ports
    assert ports[2] != 19_093
    assert ports[2] in range(20_000, 32_000)
    assert ports[1] == 19_092 or not port_is_free("127.0.0.1", 19_092)


def test_a_directory_whose_processes_live_keeps_their_listeners(tmp_path: Path) -> None:
    earlier(tmp_path)
    pid_file = LocalCluster.open(tmp_path).process(1).pid_file
    pid_file.parent.mkdir()
    pid_file.write_text(f"{os.getpid()}\n{start_identity(os.getpid())}\n")
    assert not LocalCluster.create(tmp_path).file.grpc_ports


@pytest.mark.parametrize("key", ["advertised.listeners", "inter.broker.listener.name"])
def test_a_directory_that_names_its_only_listener_keeps_it(tmp_path: Path, key: str) -> None:
    value = "PLAINTEXT" if key.endswith("name") else "PLAINTEXT://here:9092"
    kept = earlier(tmp_path, **{key: value})
    assert LocalCluster.create(tmp_path).file == kept
    config = load_broker_config(str(tmp_path / "broker-1.toml"), {}, {})
    assert [each.protocol.name for each in config.listeners] == ["GRPC"]


def test_both_ports_of_a_broker_must_be_free_in_a_new_directory(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        first = port - 10_000 if port > 10_002 else port + 10_000
        with pytest.raises(ClusterError, match=f"port {port} for broker 1 is in use"):
            LocalCluster.create(tmp_path / "new", brokers=1, port=first)
    assert not (tmp_path / "new").exists()


def test_each_process_has_a_port_for_metrics_the_controller_the_first_one(tmp_path: Path) -> None:
    plain = new_cluster_file(brokers=3, port=9092)
    assert "metrics.listeners" not in {**controller_keys(tmp_path, plain)}
    cluster = with_metrics(plain, 9400)
    found = [controller_keys(tmp_path, cluster)] + [
        broker_keys(tmp_path, cluster, broker_id) for broker_id in (1, 2, 3)
    ]
    assert [keys["metrics.listeners"] for keys in found] == [
        "127.0.0.1:9400",
        "127.0.0.1:9401",
        "127.0.0.1:9402",
        "127.0.0.1:9403",
    ]
    assert ClusterFile.from_json(cluster.to_json()) == cluster


def test_free_ports_for_metrics_are_none_of_the_clusters_and_stay() -> None:
    plain = new_cluster_file(brokers=2, port=0)
    cluster = with_metrics(plain, 0)
    ports = set(cluster.metrics_ports.values())
    assert len(ports) == 3
    others = {plain.controller_port, *plain.broker_ports.values(), *plain.grpc_ports.values()}
    assert ports.isdisjoint(others)
    assert with_metrics(cluster, 0) == cluster


def test_a_broker_that_left_keeps_its_port_for_metrics() -> None:
    left = with_metrics(new_cluster_file(brokers=3, port=9092).without(3), 9400)
    assert left.with_again(3).metrics_address(3) == "127.0.0.1:9403"


@pytest.mark.parametrize(
    ("port", "why"), [(9090, "port 9091 is"), (19_095 - 3, "port 19092 is"), (65_533, "65536")]
)
def test_ports_for_metrics_that_cannot_be_are_a_mistake_of_usage(port: int, why: str) -> None:
    with pytest.raises(UsageMistake, match=why):
        with_metrics(new_cluster_file(brokers=3, port=9092), port)


def test_one_address_for_metrics_of_all_processes_is_replaced(tmp_path: Path) -> None:
    same = {"metrics.listeners": "127.0.0.1:9400", "log.level": "debug"}
    kept = new_cluster_file(brokers=1, port=9092, controller_config=same, broker_config=same)
    keys = broker_keys(tmp_path, with_metrics(kept, 9500), 1)
    assert (keys["metrics.listeners"], keys["log.level"]) == ("127.0.0.1:9501", "debug")
    with pytest.raises(UsageMistake, match="--metrics-port, one port for each process"):
        split_overrides(["metrics.listeners=127.0.0.1:9400"])


def test_a_taken_port_for_metrics_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(
            ClusterError, match=f"127.0.0.1:{taken} for the metrics of the controller"
        ):
            LocalCluster.create(tmp_path / "c", brokers=1, port=0, metrics_port=taken)
    assert not (tmp_path / "c" / "cluster.json").exists()
