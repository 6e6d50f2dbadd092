"""Addresses: where a listener is reached, and which hosts and ports can be dialled at all.

Whoever is told an address hands it to a resolver, which fails in ways of its own where a name
cannot be one: so it is looked at where it comes in, from a configuration or a registration.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

import msgspec

HOST_LENGTH_MAX: Final = 253
LABEL_LENGTH_MAX: Final = 63
PORT_MAX: Final = 65535
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
_SHOWN_LENGTH: Final = 80


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one listener of a broker is reached; as such it stands in the controller's log too."""

    listener: str
    host: str
    port: int


def host_problem(host: str) -> str | None:
    """Why nobody can resolve `host`, with the remedy; None for a name or an IP address."""
    shown = repr(host[:_SHOWN_LENGTH]) + ("..." if len(host) > _SHOWN_LENGTH else "")
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return f"host {shown} is no IPv6 address, and no name has a colon"
        return None
    if host == "":
        return "the host is empty: name one that others can reach"
    if not host.isascii():
        return f"host {shown} has letters that are not ASCII: write it as xn--..."
    name = host.removesuffix(".")
    if len(name) > HOST_LENGTH_MAX:
        return f"host {shown} has {len(name)} characters, a name has {HOST_LENGTH_MAX} at most"
    for label in name.split("."):
        if label == "":
            return f"host {shown} has an empty part: nothing may stand before a dot but a name"
        if len(label) > LABEL_LENGTH_MAX:
            return (
                f"host {shown} has a part of {len(label)} characters, between dots are "
                f"{LABEL_LENGTH_MAX} at most"
            )
        if _LABEL.fullmatch(label) is None:
            return (
                f"host {shown}: the part {label!r} is not of letters, digits, '_' and, inside, '-'"
            )
    return None


def port_problem(port: int) -> str | None:
    """Why nobody can dial `port`; None if it is one."""
    if 1 <= port <= PORT_MAX:
        return None
    return f"port {port} is not one from 1 to {PORT_MAX}"
