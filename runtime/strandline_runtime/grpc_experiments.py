"""The setting of gRPC's experiments for our programs; gRPC reads it when it is imported."""

import os
from typing import Final

VARIABLE: Final = "GRPC_EXPERIMENTS"
WITHOUT_EVENT_ENGINE: Final = "-event_engine_client,-event_engine_listener"

_given: Final = os.environ.get(VARIABLE)


def without_event_engine() -> None:
    """Make the thread that waits for calls read and write the sockets too.

    gRPC's event engine passes each of its reads and writes to its own threads, which costs a few
    context switches for every message. Our programs call this first, before grpc is imported, and
    the processes that they start inherit it. A value set by the user is kept, even an empty one.
    """
    os.environ.setdefault(VARIABLE, WITHOUT_EVENT_ENGINE)


def environment_as_given() -> dict[str, str]:
    """The environment without the variable that `without_event_engine` has added: for a program
    outside this checkout.
    """
    environment = dict(os.environ)
    if _given is None:
        environment.pop(VARIABLE, None)
    return environment
