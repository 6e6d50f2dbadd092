"""A client's name on its way to a server: in the user agent of its connections, so no call carries
more for it. Kafka's clients say theirs in the header of each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

AGENT: Final = "client-id/"
SIZE_MAX: Final = 512
"""Bytes of a name in a user agent; a longer name is cut. gRPC bounds a call's metadata to 8 KiB."""


def user_agent(client_id: str) -> str:
    """The first word of the user agent, in printable ASCII."""
    cut = client_id.encode(errors="replace")[:SIZE_MAX].decode(errors="ignore")
    return AGENT + quote(cut, safe="")


def client_id_of(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The name in a call's metadata, printable; empty if the client has none."""
    for key, value in metadata:
        if key == "user-agent" and isinstance(value, str) and value.startswith(AGENT):
            name = unquote(value.removeprefix(AGENT).partition(" ")[0], errors="replace")
            return "".join(letter if letter.isprintable() else "?" for letter in name)
    return ""
