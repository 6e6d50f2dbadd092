"""The protection of the console's user: headers, names of the host, and the token of actions.

The console shows names and values that strangers wrote. Pages escape them; the content security
policy stops a script that slipped through. A page of another site can reach a server on loopback by
a name of its own, so only names of loopback are answered there.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING, Final

import msgspec

from strandline_console.answers import Refusal
from strandline_console.serving.parameters import Refused

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
_LOOPBACK_NAMES: Final = {"localhost", "127.0.0.1", "::1"}


def is_loopback(host: str) -> bool:
    """True if only processes of this machine reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """The name in a Host header, without its port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


class Guard:
    """Adds the headers to every answer; on loopback, refuses names that are not loopback's."""

    def __init__(self, app: ASGIApp, *, loopback: bool) -> None:
        self._app = app
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *_HEADERS]
                if scope["path"].startswith("/api/"):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        given = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if self._loopback and host_name(given).lower() not in _LOOPBACK_NAMES:
            await _refuse(guarded, f"the console answers at 127.0.0.1 and localhost, not {given!r}")
            return
        await self._app(scope, receive, guarded)


async def _refuse(send: Send, sentence: str) -> None:
    body = msgspec.json.encode(Refusal(error=sentence))
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 421, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Actions:
    """The right to act: only on loopback, and with the token that the start printed."""

    def __init__(self, token: str, *, read_only_reason: str | None) -> None:
        self._token = token
        self.read_only_reason = read_only_reason

    def check(self, headers: Headers) -> None:
        """Raises Refused for a request that may not act."""
        if self.read_only_reason is not None:
            raise Refused(403, self.read_only_reason)
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "an action is sent as application/json")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            raise Refused(403, f"a page of {origin[:200]} may not act here")
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or not hmac.compare_digest(given.encode(), self._token.encode()):
            raise Refused(401, "the token is missing or wrong: the console printed it at its start")
