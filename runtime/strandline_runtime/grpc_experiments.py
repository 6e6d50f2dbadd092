"""The settings of gRPC for our programs; gRPC reads them when it is imported."""

import os
from typing import Final

VARIABLE: Final = "GRPC_EXPERIMENTS"
WITHOUT_EVENT_ENGINE: Final = "-event_engine_client,-event_engine_listener"
BACKUP_POLL: Final = "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS"
BACKUP_POLL_MS: Final = "100"

SETTINGS: Final = {VARIABLE: WITHOUT_EVENT_ENGINE, BACKUP_POLL: BACKUP_POLL_MS}
_added: Final = [name for name in SETTINGS if name not in os.environ]


def without_event_engine() -> None:
    """Make the thread that waits for calls read and write the sockets too.

    gRPC's event engine passes each of its reads and writes to its own threads, which costs a few
    context switches for every message. Our programs call this first, before grpc is imported, and
    the processes that they start inherit it. A value set by the user is kept, even an empty one.

    Without the engine, a channel reads its sockets only while a call waits. Between calls gRPC
    polls them every 5 seconds by default, and an attempt to connect ends after 3. A process of
    blocking calls that fail at once would never connect again.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def environment_as_given() -> dict[str, str]:
    """The environment without the variables that `without_event_engine` has added: for a program
    outside this checkout.
    """
    return {name: value for name, value in os.environ.items() if name not in _added}
