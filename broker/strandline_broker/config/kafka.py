"""The configuration keys of a broker's listeners for Kafka's protocol."""

from __future__ import annotations

from dataclasses import dataclass

from strandline_broker.config.addresses import NamedProtocol, protocol_map
from strandline_broker.config.key import declared as _key
from strandline_broker.config.parsers import byte_count, limit_ms
from strandline_broker.config.transactions import TransactionCoordinatorConfig
from strandline_broker.core.config_values import boolean, integer
from strandline_broker.core.topic_config import INT32_MAX, INT64_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaListenerConfig(TransactionCoordinatorConfig):
    listener_security_protocol_map: tuple[NamedProtocol, ...] = _key(
        protocol_map,
        "",
        "Protocols of listeners, as NAME:GRPC or NAME:PLAINTEXT; PLAINTEXT is Kafka's protocol. A"
        " listener that is not named speaks Kafka's protocol if its name is PLAINTEXT, otherwise"
        " gRPC. A broker's only listener speaks gRPC unless it is named.",
    )
    auto_create_topics_enable: bool = _key(
        boolean,
        "true",
        "True: a Kafka client's request for a topic's metadata creates the topic.",
    )
    socket_request_max_bytes: int = _key(
        byte_count(1), "104857600", "Largest request that a Kafka listener accepts."
    )
    queued_max_request_bytes: int = _key(
        integer(1, INT64_MAX, "bytes"),
        str(256 << 20),
        "Limit of the bytes of requests that all Kafka connections hold at a time. Above it, the"
        " broker reads no further.",
    )
    max_connections: int = _key(
        integer(1, INT32_MAX), str(INT32_MAX), "Limit of connections to the Kafka listeners."
    )
    max_connections_per_ip: int = _key(
        integer(1, INT32_MAX),
        str(INT32_MAX),
        "Limit of connections to the Kafka listeners from one IP address.",
    )
    connections_max_idle_ms: int = _key(
        limit_ms,
        "600000",
        "Time without a request after which the broker closes a Kafka connection; -1: no limit.",
    )
