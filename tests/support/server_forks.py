"""Servers of this process's clusters are forks of one process that has imported them.

So they start without the half second of imports. Clusters that a forked command starts have them
too. New interpreters have those of a new interpreter, such as `strandline up` that stays, and
servers whose environment an interpreter reads when it starts.
"""

from __future__ import annotations

import atexit
import os
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final

from strandline_local import processes
from support.command_forks import SERVERS, Fork, Forks, spawn_by

if TYPE_CHECKING:
    from collections.abc import Mapping

_starting: Final = Lock()


def server_forks() -> Forks:
    with _starting:
        return _only_forks()


@cache
def _only_forks() -> Forks:
    forks = Forks(SERVERS)
    atexit.register(forks.close)
    return forks


def use_forks() -> None:
    """For all `LocalCluster`s of this process."""
    processes.spawn = spawn_by(server_forks)


def start_server(server: str, settings: Mapping[str, str], output: int) -> Fork:
    """A server with these settings on its command line, and with its output to this descriptor."""
    words = [server]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    assert server_forks().can_take(words, os.environ)
    return server_forks().start_into(output, words, os.environ)
