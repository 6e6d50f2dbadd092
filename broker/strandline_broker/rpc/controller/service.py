"""The controller's service: its groups of calls as one servicer behind the RPC boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.rpc.broker_service import Service
from strandline_proto.v1 import services_pb2_grpc

if TYPE_CHECKING:
    import grpc.aio

CONTROLLER_SERVICE: Final = "strandline_proto.v1.ControllerService"


def add_controller_service(server: grpc.aio.Server, service: Service) -> None:
    services_pb2_grpc.add_ControllerServiceServicer_to_server(
        service,  # type: ignore[arg-type] # its methods are found by name
        server,
    )


__all__ = ["CONTROLLER_SERVICE", "Service", "add_controller_service"]
