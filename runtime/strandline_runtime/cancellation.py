"""Delivery of a cancellation that could get lost."""

import asyncio


def deliver_cancellation() -> None:
    """Raise CancelledError if this task was cancelled and has not received it.

    Call it after an `except*` around a TaskGroup whose body waits until the group ends. If a child
    fails at the moment when the group's owner is cancelled, the group raises the failure alone
    (Python 3.11 and 3.12). An owner that handles the failure would continue for ever, as no second
    cancellation follows.

    The body must wait. If a group fails while its owner waits at the end of the block, it counts
    its own cancellation of the owner. It never takes that back (Python 3.11, 3.12).

    Call it also after a failed read or write of a gRPC stream. While the stream is being opened,
    grpcio treats the cancellation as its own, and raises the stream's error instead.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling() > 0:
        raise asyncio.CancelledError
