"""The configuration keys of a broker's listeners for Kafka's protocol."""

from __future__ import annotations

from dataclasses import dataclass

from strandline_broker.config.addresses import NamedProtocol, protocol_map
from strandline_broker.config.groups import GroupCoordinatorConfig
from strandline_broker.config.key import declared as _key
from strandline_broker.core.config_values import boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaListenerConfig(GroupCoordinatorConfig):
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
