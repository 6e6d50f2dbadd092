"""The controller's service: its groups of calls as one servicer behind the RPC boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.rpc.broker_service import Service, add_handlers
from strandline_broker.rpc.lazy_service import Collector
from strandline_proto.v1 import services_pb2_grpc

if TYPE_CHECKING:
    import grpc.aio

CONTROLLER_SERVICE: Final = "strandline_proto.v1.ControllerService"


def add_controller_service(server: grpc.aio.Server, service: Service) -> None:
    collector: Any = Collector()
    services_pb2_grpc.add_ControllerServiceServicer_to_server(
        service,  # type: ignore[arg-type] # its methods are found by name
        collector,
    )
    add_handlers(server, CONTROLLER_SERVICE, collector)


__all__ = ["CONTROLLER_SERVICE", "Service", "add_controller_service"]
