"""Which of gRPC's experiments our programs run with; gRPC reads that when it is imported."""

import os
from typing import Final

VARIABLE: Final = "GRPC_EXPERIMENTS"
WITHOUT_EVENT_ENGINE: Final = "-event_engine_client,-event_engine_listener"

_given: Final = os.environ.get(VARIABLE)


def without_event_engine() -> None:
    """Have the thread that waits for calls read and write the sockets too.

    gRPC's event engine hands each of its reads and writes to threads of its own: a few context
    switches more for every message. First thing in a program of ours, before grpc is imported, and
    inherited by the processes that it starts. What a user has set stays, the empty value too.
    """
    os.environ.setdefault(VARIABLE, WITHOUT_EVENT_ENGINE)


def environment_as_given() -> dict[str, str]:
    """The environment without what `without_event_engine` has added: for a program that is none of
    this checkout's.
    """
    environment = dict(os.environ)
    if _given is None:
        environment.pop(VARIABLE, None)
    return environment
