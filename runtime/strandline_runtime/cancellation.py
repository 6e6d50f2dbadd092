"""A cancellation that must not get lost."""

import asyncio


def deliver_cancellation() -> None:
    """Raise CancelledError if this task has been cancelled and nobody has told it.

    To be called after an `except*` around a TaskGroup whose body waits until the group ends. Where
    a child fails at the moment at which the group's owner is cancelled, the group raises the
    failure alone (Python 3.11 and 3.12), and an owner that handles it would go on for ever, as
    nobody cancels it a second time.

    The body must wait, because a group that fails while its owner waits at the end of the block
    counts its own cancellation of the owner and never takes it back (Python 3.11, 3.12).

    Also after a failed read or write of a gRPC stream: while the stream is being opened, grpcio
    takes the cancellation for its own, and raises what the stream broke with instead.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling() > 0:
        raise asyncio.CancelledError
