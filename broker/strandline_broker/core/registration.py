"""A broker's registration: the facts that it sends to its controller when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.addresses import Endpoint
    from strandline_proto.ids import BrokerEpoch, BrokerId, ControllerEpoch, MetadataOffset

_KAFKA: Final = "kafka:"


def kafka_features(listeners: Iterable[str]) -> tuple[str, ...]:
    """The features `kafka:NAME` of a broker, one for each listener that speaks Kafka's protocol.

    Earlier controllers store features without reading them.
    """
    return tuple(f"{_KAFKA}{name}" for name in listeners)


def kafka_listeners(features: Iterable[str]) -> tuple[str, ...]:
    """Names of the listeners that speak Kafka's protocol, from the broker's features."""
    return tuple(each.removeprefix(_KAFKA) for each in features if each.startswith(_KAFKA))


@dataclass(frozen=True, slots=True)
class Registration:
    broker_id: BrokerId
    cluster_id: str
    incarnation_id: str
    directory_id: str
    flush_policy: str
    pid: int
    version: str
    """Version of its build, with the commit: 0.1.0+7540e83e8f2c."""
    store_id: str
    controller_epoch: ControllerEpoch
    metadata_offset: MetadataOffset
    listeners: tuple[Endpoint, ...]
    inter_broker_listener: str
    rack: str
    log_dirs: tuple[str, ...]
    previous_broker_epoch: BrokerEpoch
    features: tuple[str, ...] = ()
    replicas_max: int = 0
    """Number of replicas for which its descriptors suffice; 0: unknown."""
