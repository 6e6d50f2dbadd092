"""A broker's registration: the facts that it sends to its controller when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_broker.core.addresses import Endpoint
    from strandline_proto.ids import BrokerEpoch, BrokerId, ControllerEpoch, MetadataOffset


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
