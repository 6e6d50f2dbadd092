"""Requests of transactional producers, which are refused with error 35 (UNSUPPORTED_VERSION)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_broker.kafka.request import Request
    from strandline_runtime.runtime import Runtime

PAUSE_S: Final = 60.0
"""Time between two log lines: a producer repeats its request."""


class TransactionsRefused:
    """The log's explanation of a refusal, for answers have no place for one or clients hide it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._quiet_until_s = 0.0

    def log(self, request: Request) -> None:
        now_s = self._runtime.clock.monotonic()
        if now_s < self._quiet_until_s:
            return
        self._quiet_until_s = now_s + PAUSE_S
        self._runtime.log.warning(
            "transactions are not supported; a producer without transactional.id is idempotent"
            " too: set enable.idempotence=true",
            request=request.header.api.name,
            client_id=request.client_id,
            client_host=request.client_host,
        )
