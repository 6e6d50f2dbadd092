"""The listeners of a broker: the protocol of each, and the rules that they fulfil together.

`listener.security.protocol.map` names the protocols. A listener that the map omits speaks Kafka's
protocol if its name is PLAINTEXT, otherwise gRPC. Other brokers and the controller use gRPC, so a
broker needs a gRPC listener. The only listener of a broker therefore speaks gRPC unless the map
names it: configurations from before Kafka's protocol keep their meaning.

Names have no case where protocols are concerned, as in Kafka.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from strandline_broker.config.addresses import WireProtocol
from strandline_broker.core.config_values import suggestion

if TYPE_CHECKING:
    from strandline_broker.config.addresses import Listener
    from strandline_broker.config.keys import BrokerConfig

_KAFKA_NAME: Final = "PLAINTEXT"
_MAP: Final = "listener.security.protocol.map"


def check_unique_names(key: str, named: tuple[Listener, ...]) -> None:
    """Raises ValueError if two listeners have the same name."""
    names = [listener.name for listener in named]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{key} names {name} twice; each listener needs its own name")


def with_listeners(config: BrokerConfig) -> BrokerConfig:
    """The configuration with the protocol of each listener, and with the inter-broker listener.

    Raises ValueError for listeners that do not fit together.
    """
    check_unique_names("listeners", config.listeners)
    check_unique_names("advertised.listeners", config.advertised_listeners)
    names = [listener.name for listener in config.listeners]
    for listener in config.advertised_listeners:
        if listener.name not in names:
            raise ValueError(
                f"advertised.listeners names {listener.name}, but listeners has only"
                f" {', '.join(names)}"
            )
    config = _with_protocols(config)
    config = dataclasses.replace(config, inter_broker_listener_name=_inter_broker(config))
    for name in names:
        host = config.advertised(name).host
        if host in ("0.0.0.0", "::"):
            raise ValueError(
                f"listener {name} would be advertised as {host}, which no client can reach; set"
                " advertised.listeners"
            )
    return config


def _with_protocols(config: BrokerConfig) -> BrokerConfig:
    names = {listener.name.upper(): listener.name for listener in config.listeners}
    protocols = {name: _by_default(name, len(names)) for name in names}
    for entry in config.listener_security_protocol_map:
        if entry.listener.upper() not in names:
            hint = suggestion(entry.listener, names.values())
            raise ValueError(
                f"{_MAP} names {entry.listener}, but listeners has only"
                f" {', '.join(names.values())}{hint}"
            )
        protocols[entry.listener.upper()] = entry.protocol

    def resolved(listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
        return tuple(
            dataclasses.replace(each, protocol=protocols[each.name.upper()]) for each in listeners
        )

    return dataclasses.replace(
        config,
        listeners=resolved(config.listeners),
        advertised_listeners=resolved(config.advertised_listeners),
    )


def _by_default(name: str, count: int) -> WireProtocol:
    return WireProtocol.KAFKA if name == _KAFKA_NAME and count > 1 else WireProtocol.GRPC


def _inter_broker(config: BrokerConfig) -> str:
    """Name of the inter-broker listener: the named one, else the first that speaks gRPC."""
    names = [listener.name for listener in config.listeners]
    grpc = [each.name for each in config.listeners if each.protocol is WireProtocol.GRPC]
    if not grpc:
        raise ValueError(
            f"no listener of {', '.join(names)} speaks gRPC, which the controller and other brokers"
            " use; add one to listeners, for instance GRPC://HOST:19092, or set"
            f" {_MAP}={names[0]}:GRPC"
        )
    wanted = config.inter_broker_listener_name
    if wanted and wanted not in names:
        raise ValueError(
            f"inter.broker.listener.name is {wanted}, but listeners has only {', '.join(names)}"
        )
    if wanted and wanted not in grpc:
        raise ValueError(
            f"inter.broker.listener.name is {wanted}, which speaks Kafka's protocol; the controller"
            f" and other brokers use gRPC. Name a gRPC listener ({', '.join(grpc)}), or set"
            f" {_MAP}={wanted}:GRPC"
        )
    return wanted or grpc[0]


def is_grpc_by_need(config: BrokerConfig) -> bool:
    """True if the only listener has Kafka's name, and speaks gRPC because a broker needs that."""
    names = [listener.name.upper() for listener in config.listeners]
    return names == [_KAFKA_NAME] and not config.listener_security_protocol_map


def passthrough_listener(config: BrokerConfig, kafka: str) -> Listener:
    """The gRPC listener to which HTTP/2 connections pass from the Kafka listener of that name.

    Listeners for clients come before the inter-broker listener. Of several, the first with the same
    advertised host is taken: a client that reaches the one address reaches the other.
    """
    between = config.inter_broker_listener_name
    grpc = [each for each in config.listeners if each.protocol is WireProtocol.GRPC]
    for_clients = [each for each in grpc if each.name != between] or grpc
    host = config.advertised(kafka).host
    near = [each for each in for_clients if config.advertised(each.name).host == host]
    return (near or for_clients)[0]


def range_listener(config: BrokerConfig, grpc: str) -> str | None:
    """The Kafka listener that serves ranges to the clients of that gRPC listener: the first that
    passes HTTP/2 on to it and has the same advertised host. None without one.
    """
    host = config.advertised(grpc).host
    for each in config.listeners:
        if (
            each.protocol is WireProtocol.KAFKA
            and passthrough_listener(config, each.name).name == grpc
            and config.advertised(each.name).host == host
        ):
            return each.name
    return None
