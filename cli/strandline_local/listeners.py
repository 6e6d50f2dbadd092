"""The listeners of a broker, as commands show them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

KAFKA: Final = "kafka"
GRPC: Final = "grpc"


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """The advertised address of one listener."""

    listener: str
    protocol: str
    """`kafka` or `grpc`."""
    address: str


def as_documents(listeners: Iterable[ListenerAddress]) -> list[dict[str, str]]:
    """The listeners for scripts."""
    return [asdict(each) for each in listeners]


def addresses_of(protocol: str, documents: Iterable[dict[str, str]]) -> str:
    """The addresses that speak the protocol, as one cell of a table."""
    return ",".join(each["address"] for each in documents if each["protocol"] == protocol)
