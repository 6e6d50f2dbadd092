"""Servers of this process's clusters are forks of one process that has imported them.

So they start without the half second of imports. Clusters that the command line starts have new
interpreters, as have servers whose environment an interpreter reads when it starts.
"""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final, cast

from strandline_local import processes
from support.command_forks import SERVERS, Fork, Forks

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

_INTERPRETER: Final = [sys.executable, "-m", "strandline_broker"]
_new_interpreter: Final = processes.spawn
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
    processes.spawn = _spawn


def start_server(server: str, settings: Mapping[str, str], output: int) -> Fork:
    """A server with these settings on its command line, and with its output to this descriptor."""
    words = [server]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    assert server_forks().can_take(words, os.environ)
    return server_forks().start_into(output, words, os.environ)


def _spawn(
    argv: Sequence[str],
    environ: Mapping[str, str],
    output: int,
    inherited: Sequence[int] = (),
    groups: Sequence[int] | None = None,
) -> subprocess.Popen[bytes]:
    program, arguments = list(argv[:3]), list(argv[3:])
    is_plain = program == _INTERPRETER and not inherited and groups is None
    if not is_plain or not server_forks().can_take(arguments, environ):
        return _new_interpreter(argv, environ, output, inherited, groups)
    fork = server_forks().start_into(output, arguments, environ)
    return cast("subprocess.Popen[bytes]", fork)
