"""Addresses in configuration: `NAME://HOST:PORT` of listeners, `HOST:PORT` of peers."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from strandline_broker.core.addresses import PORT_MAX, host_problem

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_LISTENER: Final = re.compile(rf"(?P<name>{_NAME.pattern})://(?P<rest>.*)\Z")
_HOST_PORT: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:/\s\[\]]*)):(?P<port>[0-9]+)\Z"
)
_SECURE: Final = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")


class WireProtocol(enum.Enum):
    """A protocol that a listener speaks; its value is the word in the configuration."""

    GRPC = "GRPC"
    KAFKA = "PLAINTEXT"

    def __str__(self) -> str:
        return self.value


class NamedProtocol(NamedTuple):
    """One entry of `listener.security.protocol.map`."""

    listener: str
    protocol: WireProtocol

    def __str__(self) -> str:
        return f"{self.listener}:{self.protocol}"


@dataclass(frozen=True, slots=True)
class HostPort:
    host: str
    port: int

    @property
    def target(self) -> str:
        """The address as a gRPC target."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.target


@dataclass(frozen=True, slots=True)
class Listener:
    """One address on which a server listens. Port 0 means any free port."""

    name: str
    host: str
    port: int
    protocol: WireProtocol = WireProtocol.GRPC

    @property
    def target(self) -> str:
        """The address as a gRPC target."""
        return HostPort(self.host, self.port).target

    def __str__(self) -> str:
        return f"{self.name}://{self.target}"


def host_ports(value: str) -> tuple[HostPort, ...]:
    """`HOST:PORT` entries separated by commas; the ValueError says what is wrong."""
    form = "expected HOST:PORT, for instance 127.0.0.1:9090"
    found = []
    for item in _items(value, form):
        host_port = _host_port(item, form)
        if not host_port.host or host_port.port == 0:
            raise ValueError(form)
        found.append(host_port)
    return tuple(found)


def listeners(value: str) -> tuple[Listener, ...]:
    """`NAME://HOST:PORT` entries separated by commas; the ValueError says what is wrong."""
    form = "expected NAME://HOST:PORT, for instance PLAINTEXT://127.0.0.1:9092"
    found = []
    for item in _items(value, form):
        match = _LISTENER.match(item)
        if match is None:
            raise ValueError(form)
        if match["name"].upper() in _SECURE:
            raise ValueError(
                f"{match['name']}: encryption and authentication are not supported yet; give the"
                " listener another name, PLAINTEXT for Kafka's protocol or GRPC for gRPC"
            )
        host_port = _host_port(match["rest"], form)
        found.append(Listener(match["name"], host_port.host or "0.0.0.0", host_port.port))
    return tuple(found)


def protocol_map(value: str) -> tuple[NamedProtocol, ...]:
    """`NAME:PROTOCOL` entries separated by commas; the ValueError says what is wrong."""
    form = "expected NAME:PROTOCOL, for instance PLAINTEXT:PLAINTEXT,INTERNAL:GRPC"
    found: dict[str, NamedProtocol] = {}
    for item in _items(value, form):
        name, colon, word = (part.strip() for part in item.partition(":"))
        if colon == "" or _NAME.fullmatch(name) is None:
            raise ValueError(f"{item!r}: {form}")
        if word.upper() in _SECURE:
            raise ValueError(
                f"{item}: encryption and authentication are not supported yet; write"
                f" {name}:PLAINTEXT for Kafka's protocol or {name}:GRPC for gRPC"
            )
        try:
            protocol = WireProtocol(word.upper())
        except ValueError:
            raise ValueError(
                f"{item}: expected the protocol GRPC, or PLAINTEXT for Kafka's protocol"
            ) from None
        if name.upper() in found:
            raise ValueError(f"{name} is named twice; each listener has one protocol")
        found[name.upper()] = NamedProtocol(name, protocol)
    return tuple(found.values())


def _items(value: str, form: str) -> list[str]:
    items = [item.strip() for item in value.split(",") if item.strip()]
    if value and not items:
        raise ValueError(form)
    return items


def _host_port(value: str, form: str) -> HostPort:
    match = _HOST_PORT.match(value)
    if match is None:
        raise ValueError(form)
    host, port = match["six"] or match["host"], int(match["port"])
    problem = host_problem(host) if host else None
    if problem is not None:
        raise ValueError(f"{problem}; {form}")
    if port > PORT_MAX:
        raise ValueError(f"{port} is not a port; {form}")
    return HostPort(host, port)
