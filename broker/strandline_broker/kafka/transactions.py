"""The refusal of transactions, which are not served yet: the error, and a line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_proto.errors import UnsupportedVersion

if TYPE_CHECKING:
    from strandline_broker.kafka.request import Request
    from strandline_runtime.runtime import Runtime

QUIET_S: Final = 10.0
"""Time between two lines in the log: a client may try again at once."""


class Transactions:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._quiet_until_s = 0.0

    def refuse(self, request: Request, transactional_id: str) -> UnsupportedVersion:
        """Returns the error for the client, and explains it in the log: few of Kafka's answers
        have room for a message.
        """
        now_s = self._runtime.clock.monotonic()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + QUIET_S
            self._runtime.log.warning(
                "transactions are not supported yet",
                request=request.header.api.name,
                transactional_id=transactional_id,
                client_id=request.client_id,
                client_host=request.client_host,
                remedy="unset transactional.id in the client",
            )
        return UnsupportedVersion("transactions are not supported yet; unset transactional.id")
