"""The protocols of a broker's listeners, and the listeners that have to be there."""

import pytest

from strandline_broker.config.addresses import Listener, WireProtocol
from strandline_broker.config.keys import BrokerConfig
from strandline_broker.config.listeners import is_grpc_by_need, passthrough_listener, range_listener
from strandline_broker.config.loading import (
    ConfigError,
    load_broker_config,
    load_controller_config,
)
from strandline_broker.config.text import printed

REST = {
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9090",
    "log.dirs": "/data",
}
BOTH = "PLAINTEXT://127.0.0.1:9092,GRPC://127.0.0.1:19092"
MAP = "listener.security.protocol.map"
INTER_BROKER = "inter.broker.listener.name"


def broker(listeners: str, named: str = "", **more: str) -> BrokerConfig:
    dotted = {name.replace("_", "."): value for name, value in more.items()}
    return load_broker_config(None, {**REST, "listeners": listeners, MAP: named, **dotted}, {})


def refusal(listeners: str, named: str = "", **more: str) -> str:
    with pytest.raises(ConfigError) as caught:
        broker(listeners, named, **more)
    message = str(caught.value)
    assert "\n" not in message
    return message


def protocols(config: BrokerConfig) -> dict[str, str]:
    return {each.name: each.protocol.name for each in config.listeners}


@pytest.mark.parametrize(
    ("listeners", "named", "expected"),
    [
        (BOTH, "", {"PLAINTEXT": "KAFKA", "GRPC": "GRPC"}),
        ("plaintext://h:1,A://h:2", "", {"plaintext": "KAFKA", "A": "GRPC"}),
        ("PLAINTEXT_HOST://h:1,A://h:2", "", {"PLAINTEXT_HOST": "GRPC", "A": "GRPC"}),
        ("A://h:1,B://h:2", "B:PLAINTEXT", {"A": "GRPC", "B": "KAFKA"}),
        ("A://h:1,B://h:2", " b : plaintext , A:grpc", {"A": "GRPC", "B": "KAFKA"}),
        (BOTH, "PLAINTEXT:GRPC", {"PLAINTEXT": "GRPC", "GRPC": "GRPC"}),
        (BOTH, "PLAINTEXT:GRPC,GRPC:PLAINTEXT", {"PLAINTEXT": "GRPC", "GRPC": "KAFKA"}),
        # The only listener: brokers and the controller need it, so it speaks what they speak.
        ("PLAINTEXT://h:1", "", {"PLAINTEXT": "GRPC"}),
        ("PLAINTEXT://h:1", "PLAINTEXT:GRPC", {"PLAINTEXT": "GRPC"}),
    ],
)
def test_each_listener_has_the_protocol_of_the_map_or_of_its_name(
    listeners: str, named: str, expected: dict[str, str]
) -> None:
    assert protocols(broker(listeners, named)) == expected


def test_advertised_addresses_have_the_protocols_of_their_listeners() -> None:
    config = broker(BOTH, advertised_listeners="PLAINTEXT://public:1")
    told = config.advertised("PLAINTEXT")
    assert told == Listener("PLAINTEXT", "public", 1, WireProtocol.KAFKA)
    assert config.advertised("GRPC").protocol is WireProtocol.GRPC


def test_a_controller_speaks_grpc_whatever_its_listener_is_called() -> None:
    settings = {"node.id": "0", "log.dirs": "/data", "listeners": "PLAINTEXT://h:1,B://h:2"}
    config = load_controller_config(None, settings, {})
    assert {each.protocol for each in config.listeners} == {WireProtocol.GRPC}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("GRPC:SSL", "GRPC:SSL: encryption and authentication are not supported yet; write"),
        ("GRPC:SASL_SSL", "write GRPC:PLAINTEXT for Kafka's protocol or GRPC:GRPC for gRPC"),
        ("GRPC:sasl_plaintext", "encryption and authentication are not supported yet"),
        ("GRPC:KAFKA", "GRPC:KAFKA: expected the protocol GRPC, or PLAINTEXT for Kafka's"),
        ("GRPC:", "expected the protocol GRPC, or PLAINTEXT for Kafka's protocol"),
        ("GRPC", "expected NAME:PROTOCOL, for instance PLAINTEXT:PLAINTEXT,INTERNAL:GRPC"),
        (":GRPC", "expected NAME:PROTOCOL"),
        ("GRPC:GRPC:GRPC", "expected the protocol GRPC"),
        ("GRPC:GRPC,grpc:PLAINTEXT", "grpc is named twice; each listener has one protocol"),
        (",", "expected NAME:PROTOCOL"),
    ],
)
def test_a_wrong_map_is_refused_with_the_remedy(value: str, says: str) -> None:
    message = refusal(BOTH, value)
    assert message.startswith(f"invalid value {value!r} for {MAP} (in --set): ")
    assert says in message


def test_a_map_that_names_no_listener_is_refused_with_those_there_are() -> None:
    message = refusal(BOTH, "PLAINTXT:PLAINTEXT")
    assert message == (
        f"{MAP} names PLAINTXT, but listeners has only PLAINTEXT, GRPC; did you mean PLAINTEXT?"
    )


def test_only_a_single_listener_of_kafkas_name_speaks_grpc_by_need() -> None:
    assert is_grpc_by_need(broker("PLAINTEXT://h:1"))
    assert not is_grpc_by_need(broker("PLAINTEXT://h:1", "PLAINTEXT:GRPC"))
    assert not is_grpc_by_need(broker("GRPC://h:1"))
    assert not is_grpc_by_need(broker(BOTH))


@pytest.mark.parametrize(
    ("listeners", "named", "first"),
    [
        (BOTH, "", "GRPC"),
        ("A://h:1,B://h:2", "", "A"),
        ("A://h:1,B://h:2", "A:PLAINTEXT", "B"),
        ("PLAINTEXT://h:1", "", "PLAINTEXT"),
    ],
)
def test_the_inter_broker_listener_is_the_first_that_speaks_grpc(
    listeners: str, named: str, first: str
) -> None:
    config = broker(listeners, named)
    assert config.inter_broker_listener_name == first
    assert config.inter_broker_listener.protocol is WireProtocol.GRPC


def test_an_inter_broker_listener_of_kafkas_protocol_is_refused() -> None:
    message = refusal(BOTH, inter_broker_listener_name="PLAINTEXT")
    assert message == (
        f"{INTER_BROKER} is PLAINTEXT, which speaks Kafka's protocol; the controller and other"
        f" brokers use gRPC. Name a gRPC listener (GRPC), or set {MAP}=PLAINTEXT:GRPC"
    )
    kept = broker(BOTH, "PLAINTEXT:GRPC", inter_broker_listener_name="PLAINTEXT")
    assert kept.inter_broker_listener.port == 9092


@pytest.mark.parametrize(
    ("listeners", "named"),
    [
        ("PLAINTEXT://h:1", "PLAINTEXT:PLAINTEXT"),
        ("A://h:1,B://h:2", "A:PLAINTEXT,B:PLAINTEXT"),
        ("PLAINTEXT://h:1,A://h:2", "A:PLAINTEXT"),
    ],
)
def test_a_broker_without_a_grpc_listener_is_refused(listeners: str, named: str) -> None:
    message = refusal(listeners, named)
    assert "speaks gRPC, which the controller and other brokers use; add one to listeners" in (
        message
    )
    first = listeners.partition(":")[0]
    assert f"or set {MAP}={first}:GRPC" in message


@pytest.mark.parametrize(
    ("listeners", "more", "target"),
    [
        (BOTH, {}, "GRPC"),
        ("PLAINTEXT://h:1,IN://h:2,OUT://h:3", {"inter_broker_listener_name": "IN"}, "OUT"),
        ("PLAINTEXT://h:1,IN://h:2,OUT://h:3", {}, "OUT"),
        ("PLAINTEXT://h:1,IN://h:2,A://i:3,B://h:4", {}, "B"),
        ("PLAINTEXT://h:1,IN://h:2,A://i:3,B://j:4", {}, "A"),
        (
            "PLAINTEXT://0.0.0.0:1,IN://h:2,A://0.0.0.0:3,B://0.0.0.0:4",
            {"advertised_listeners": "PLAINTEXT://p:1,A://i:3,B://p:4"},
            "B",
        ),
    ],
)
def test_http2_passes_to_a_listener_for_clients_and_else_to_the_one_between_brokers(
    listeners: str, more: dict[str, str], target: str
) -> None:
    assert passthrough_listener(broker(listeners, **more), "PLAINTEXT").name == target


def test_ranges_come_from_the_first_kafka_listener_that_passes_on_to_the_same_clients() -> None:
    config = broker(
        "K://h:1,L://i:2,M://h:3,IN://h:4,A://i:5,B://h:6",
        "K:PLAINTEXT,L:PLAINTEXT,M:PLAINTEXT",
        inter_broker_listener_name="IN",
    )
    assert [range_listener(config, name) for name in ("IN", "A", "B")] == [None, "L", "K"]
    assert range_listener(broker(BOTH), "GRPC") == "PLAINTEXT"
    assert range_listener(broker("PLAINTEXT://far:1,GRPC://near:2"), "GRPC") is None
    assert range_listener(broker("GRPC://127.0.0.1:1"), "GRPC") is None


def test_the_bounds_of_connections_have_kafkas_defaults_but_for_the_queue() -> None:
    config = broker(BOTH)
    assert config.socket_request_max_bytes == 100 << 20
    assert config.queued_max_request_bytes == 256 << 20
    assert config.max_connections == config.max_connections_per_ip == (1 << 31) - 1
    assert config.connections_max_idle_ms == 600_000
    assert broker(BOTH, connections_max_idle_ms="-1").connections_max_idle_ms == -1


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("socket.request.max.bytes", "0", "expected a whole number of bytes from 1"),
        ("queued.max.request.bytes", "-1", "expected a whole number of bytes from 1"),
        ("max.connections", "0", "expected a whole number from 1"),
        ("max.connections.per.ip", "0", "expected a whole number from 1"),
        ("connections.max.idle.ms", "0", "expected -1 (no limit) or a whole number of"),
        ("queued.max.request.bytes", "1000", "socket.request.max.bytes=104857600 is above queued"),
        ("max.connections.per.ip.overrides", "a:1", "is not supported yet"),
        ("max.connection.creation.rate", "1", "is not supported yet"),
    ],
)
def test_a_bound_that_cannot_be_is_refused(key: str, value: str, says: str) -> None:
    message = refusal(BOTH, **{key: value})
    assert key in message
    assert says in message


def test_the_printed_protocols_read_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = broker("A://h:1,B://h:2", "B:PLAINTEXT")
    file = tmp_path_factory.mktemp("printed") / "broker.toml"
    file.write_text(printed(config))
    assert f'"{MAP}" = "B:PLAINTEXT"' in file.read_text()
    assert load_broker_config(str(file), {}, {}).listeners == config.listeners
