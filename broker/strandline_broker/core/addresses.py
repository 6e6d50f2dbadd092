"""Addresses of listeners, and the rules for hosts and ports that can be dialled.

Clients and brokers pass an address to a resolver, which fails in its own ways if a name is
impossible. Each address is therefore checked at its source: a configuration or a registration.
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
    """The address of one listener of a broker; the controller's log stores it in this form."""

    listener: str
    host: str
    port: int


def host_problem(host: str) -> str | None:
    """The reason why `host` cannot be resolved, with the remedy; None for a name or an IP
    address.
    """
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
    """The reason why `port` cannot be dialled; None if it can."""
    if 1 <= port <= PORT_MAX:
        return None
    return f"port {port} is not one from 1 to {PORT_MAX}"
