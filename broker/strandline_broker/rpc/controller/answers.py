"""Common parts of answers to administrative requests: limits, refusals, and waits for brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proto.errors import RequestTimedOut, WireError

if TYPE_CHECKING:
    from strandline_broker.hosts.controller.controller import Controller

APPLY_WAIT_S: Final = 2.0
"""The longest time that an answer waits for brokers to apply the decision."""


def limit_s(timeout_ms: int) -> float | None:
    """The time limit of a request. A request without its own limit has that of its call."""
    return timeout_ms / 1000 if timeout_ms > 0 else None


def refuse(result: Any, error: WireError | TimeoutError, subject: str = "") -> None:
    """Write the error into an answer, or into its part about `subject`."""
    if isinstance(error, TimeoutError):
        about = f"{subject}: " if subject else ""
        error = RequestTimedOut(
            f"{about}the controller's disk was too slow; the outcome is unknown, look before a "
            "retry"
        )
    result.error_code, result.error_message = error.code, str(error)


async def wait_applied(response: Any, controller: Controller, timeout_ms: int) -> None:
    """Wait until brokers have applied the decision; the answer names those that have not confirmed
    it.

    The wait ends well within the caller's own limit: a durable decision must not look like a
    failure.
    """
    asked_s = limit_s(timeout_ms)
    wait_s = APPLY_WAIT_S if asked_s is None else min(APPLY_WAIT_S, asked_s / 2)
    response.pending_brokers.extend(await controller.until_applied(wait_s))
