"""A process that has imported what Spark's Python processes import. It forks for each of them.

Spark starts an interpreter for each query that reads a Python source, and one for each kind of
worker. Each spends half a second of processor time on imports. The program of `worker_python` asks
the process behind a socket for a fork instead, which has its streams and its environment. Other
interpreters start as ever: what has another path of modules, and what runs another module.

    python planner_forks.py DESCRIPTOR-OF-A-SOCKET
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import contextmanager, suppress
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Final

from strandline_runtime.grpc_experiments import without_event_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_WORKERS: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
)
_COMMANDS: Final = {f"-m {RUNNER}", *(f"-m pyspark.daemon {each}" for each in _WORKERS)}
_IMPORTED: Final = (
    *(RUNNER, "pyspark.daemon", *_WORKERS),
    *(f"strandline_spark.source.{each}" for each in ("planner", "history", "lag", "ranges")),
    *("strandline_spark.data_source", "strandline_spark.silver.range_output"),
    "strandline_spark.sink.sink",
)
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "MIMALLOC_", "GRPC_")
"""Beginnings of the variables that an interpreter, or a library, reads before it runs a module."""
_OF_ONE_FORK: Final = ("PYTHON_", "PYTHONUNBUFFERED")
"""Beginnings of those that Spark's modules read themselves, or that change nothing here."""
_ENVIRON: Final = dict(os.environ)
"""Before libraries change it."""
_REQUEST_BYTES_MAX: Final = 150_000
_SHIM: Final = """#!{python} -IS
import array, _socket, os, sys
asker = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
words = chr(10).join([" ".join(sys.argv[1:]), *(k + "=" + v for k, v in os.environ.items())])
status = b""
if " ".join(sys.argv[1:]) in {commands!r}:
    try:
        asker.connect({path!r})
        streams = array.array("i", [0, 1, 2])
        asker.sendmsg([os.fsencode(words)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        status = asker.recv(16)
    except OSError:
        pass
if status:
    os._exit(int(status))
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


@contextmanager
def planner_forks(folder: Path) -> Iterator[str]:
    """Yields the path of a program to give to Spark in place of this interpreter."""
    from strandline_spark.spark.session import _MALLOC, _text_settings

    as_of_a_jvm = {**_MALLOC, **os.environ, "PYTHONHASHSEED": "0"} | _text_settings()
    path, shim = str(folder / "forks"), folder / "python"
    shim.write_text(_SHIM.format(python=sys.executable, path=path, commands=_COMMANDS))
    shim.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        handed = listener.fileno()
        command = [sys.executable, __file__, str(handed)]
        server = Popen(command, stdin=PIPE, env=as_of_a_jvm, pass_fds=[handed])
    with server:
        yield str(shim)
        assert server.stdin is not None
        server.stdin.close()


class _Forking:
    """The forks that run, and who waits for their ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        self._waiting: dict[int, tuple[socket.socket, int]] = {}
        """By descriptor: of a connection and of its process."""

    def serve(self) -> tuple[str, dict[str, str]]:
        """Forks for each request, and returns in each fork. Ends with the tests."""
        while True:
            for ready, _ in self._poll.poll():
                if ready == 0:
                    os._exit(0)
                elif ready == self._listener.fileno():
                    request = self._fork()
                    if request is not None:
                        return request
                elif ready in self._waiting:
                    self._end(ready)

    def _fork(self) -> tuple[str, dict[str, str]] | None:
        asker = self._listener.accept()[0]
        request, streams, _, _ = socket.recv_fds(asker, _REQUEST_BYTES_MAX, 3)
        command, environ = _understood(request)
        if not _can_take(environ):
            asker.close()
        elif (pid := os.fork()) == 0:
            for descriptor, stream in enumerate(streams):
                os.dup2(stream, descriptor)
            os.closerange(3, 4096)
            return command, environ
        else:
            for each in (asker.fileno(), os.pidfd_open(pid)):
                self._waiting[each] = (asker, pid)
                self._poll.register(each, select.POLLIN)
        for stream in streams:
            os.close(stream)
        return None

    def _end(self, ready: int) -> None:
        asker, pid = self._waiting[ready]
        if ready == asker.fileno():  # Spark has ended its program
            os.kill(pid, signal.SIGTERM)
            self._forget(ready)
            return
        _, status = os.waitpid(pid, 0)
        with suppress(OSError):
            asker.send(b"%d" % (os.waitstatus_to_exitcode(status) & 0xFF))
        self._forget(ready)
        self._forget(asker.fileno())
        os.close(ready)
        asker.close()

    def _forget(self, descriptor: int) -> None:
        if self._waiting.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)


def _understood(request: bytes) -> tuple[str, dict[str, str]]:
    command, *lines = os.fsdecode(request).split("\n")
    return command, dict(line.split("=", 1) for line in lines)


def _can_take(environ: dict[str, str]) -> bool:
    ours, theirs = _read_at_start(_ENVIRON), _read_at_start(environ)
    return ours == theirs


def _read_at_start(environ: dict[str, str]) -> dict[str, str]:
    found = {
        name: text
        for name, text in environ.items()
        if name.startswith(_READ_AT_START) and not name.startswith(_OF_ONE_FORK)
    }
    # Spark adds the jar of its core.
    path = (one for one in found.pop("PYTHONPATH", "").split(":") if not one.endswith(".jar"))
    return found | {"PYTHONPATH": ":".join(path)}


def _run(command: str, environ: dict[str, str]) -> None:
    set_by_imports = {name: text for name, text in os.environ.items() if name not in _ENVIRON}
    os.environ.clear()
    os.environ.update(set_by_imports | environ)
    _, module, *words = command.split(" ")
    sys.argv = [module, *words]
    sys.path[0] = os.getcwd()
    del sys.modules[module]  # it runs anew, as `__main__`
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _forks() -> None:
    sys.path[0] = ""  # as with `python -m`
    forking = _Forking(socket.socket(fileno=int(sys.argv[1])))
    without_event_engine()  # as `strandline_spark` does in a program of PySpark
    for module in _IMPORTED:
        importlib.import_module(module)
    gc.freeze()
    _run(*forking.serve())


if __name__ == "__main__":
    _forks()
