"""A process that has imported the command line or the servers. It forks for each command or server
that a test runs.

A new interpreter spends most of its processor time on imports. A fork is a process of its own too:
it has the streams, the folder and the environment of its caller, and its own exit.

    python command_forks.py commands|servers DESCRIPTOR-OF-A-SOCKET [SOCKET-OF-SERVERS]

The servers that a forked command starts are forks too: of the process behind the second socket.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from strandline_runtime.grpc_experiments import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

COMMANDS: Final = "commands"
SERVERS: Final = "servers"
_INTERPRETER: Final = [sys.executable, "-m", "strandline_broker"]
_ENVIRON: Final = dict(os.environ)
"""Before a test changes it: a path of modules would change what is imported for all tests."""
_COMMANDS_IMPORT: Final = (
    *("encodings.idna", "uvloop", "strandline.admin", "strandline.consumer"),
    *("strandline.producer", "strandline.sync", "strandline_broker.offline.findings"),
)
"""What commands import once they run: two thirds of the processor time of most."""
_REQUEST_BYTES_MAX: Final = 150_000
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GRPC_")
"""Beginnings of the variables that an interpreter, or a library, reads before a command runs."""
_SET_BY_OURS: Final = {**SETTINGS, "GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}
"""What our programs set unless it is given. A test that calls one sets it for later tests."""


class Fork:
    """One command or server, with what a test uses of `subprocess.Popen`."""

    def __init__(
        self, pid: int, ended: socket.socket, streams: tuple[int, int, int] | None
    ) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._streams = streams
        self._ended = ended

    def __del__(self) -> None:
        self._ended.close()

    def communicate(self, given: bytes) -> tuple[bytes, bytes]:
        assert self._streams is not None
        stdin, stdout, stderr = self._streams
        with ThreadPoolExecutor(2) as pool:
            pool.submit(_give, stdin, given)
            error = pool.submit(_all_of, stderr)
            out, err = _all_of(stdout), error.result()
            self.wait()
        return out, err

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._ended.settimeout(timeout)
            try:
                self.returncode = int(self._ended.recv(64))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
            self._ended.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _give(descriptor: int, given: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as stream:
        stream.write(given)


def _all_of(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


class Forking:
    """What starts forks of a process, by its socket."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests

    def fileno(self) -> int:
        return self._requests.fileno()

    def can_take(self, arguments: list[str], environ: Mapping[str, str]) -> bool:
        """False if only an interpreter that starts would do the same."""
        if len(_request(arguments, environ, None)) > _REQUEST_BYTES_MAX:
            return False
        ours, theirs = {**_SET_BY_OURS, **_ENVIRON}, {**_SET_BY_OURS, **environ}
        differ = (name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        return not any(name.startswith(_READ_AT_START) for name in differ)

    def start(self, arguments: list[str], environ: Mapping[str, str], cwd: Path | None) -> Fork:
        """With pipes, for `communicate`."""
        (stdin, given), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        theirs = (stdin, stdout, stderr)
        try:
            return self._start(arguments, environ, cwd, theirs, (given, out, err))
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def start_into(self, output: int, arguments: list[str], environ: Mapping[str, str]) -> Fork:
        """Without input, and with all output to this descriptor."""
        with open(os.devnull, "rb") as nothing:
            streams = (nothing.fileno(), output, output)
            return self._start(arguments, environ, None, streams, None)

    def _start(
        self,
        arguments: list[str],
        environ: Mapping[str, str],
        cwd: Path | None,
        theirs: tuple[int, int, int],
        own: tuple[int, int, int] | None,
    ) -> Fork:
        ours, ended = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ended:
            handed = (*theirs, ended.fileno())
            socket.send_fds(self._requests, [_request(arguments, environ, cwd)], handed)
        return Fork(int(ours.recv(64)), ours, own)


class Forks(Forking):
    """The caller's end. The process ends with it."""

    def __init__(self, kind: str = COMMANDS, servers: Forking | None = None) -> None:
        requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(requests)
        with theirs:
            handed = [each.fileno() for each in (theirs, servers) if each is not None]
            # Python decides at its start how to buffer: the streams are pipes, as a command's.
            self._process = subprocess.Popen(
                [sys.executable, __file__, kind, *map(str, handed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_ENVIRON,
                pass_fds=handed,
            )

    def close(self) -> None:
        self._requests.close()
        self._process.communicate()


def spawn_by(forking: Callable[[], Forking]) -> Callable[..., subprocess.Popen[bytes]]:
    """What starts the processes of a `LocalCluster`: forks for its plain servers."""
    from strandline_local.processes import spawn as new_interpreter

    def spawn(
        argv: Sequence[str],
        environ: Mapping[str, str],
        output: int,
        inherited: Sequence[int] = (),
        groups: Sequence[int] | None = None,
    ) -> subprocess.Popen[bytes]:
        program, arguments = list(argv[:3]), list(argv[3:])
        is_plain = program == _INTERPRETER and not inherited and groups is None
        if not is_plain or not forking().can_take(arguments, environ):
            return new_interpreter(argv, environ, output, inherited, groups)
        fork = forking().start_into(output, arguments, environ)
        return cast("subprocess.Popen[bytes]", fork)

    return spawn


def _request(arguments: list[str], environ: Mapping[str, str], cwd: Path | None) -> bytes:
    folder = os.fspath(cwd) if cwd is not None else os.getcwd()
    return os.fsencode(json.dumps([arguments, dict(environ), folder]))


def _serve(requests: socket.socket, kept: Sequence[int]) -> None:
    """Forks for each request, and returns in each fork, which keeps these descriptors."""
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in running:
                pid, caller = running.pop(descriptor)
                poll.unregister(descriptor)
                os.close(descriptor)
                _, status = os.waitpid(pid, 0)
                with caller, suppress(OSError):  # who has given it up
                    caller.send(b"%d" % os.waitstatus_to_exitcode(status))
                continue
            request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES_MAX * 2, 4)
            if not request:
                for pid, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                for each in (requests, *(caller for _, caller in running.values())):
                    each.detach()
                _become(request, descriptors[:3], kept)
                return
            caller = socket.socket(fileno=descriptors.pop())
            for stream in descriptors:
                os.close(stream)
            caller.send(b"%d" % pid)
            ended = os.pidfd_open(pid)
            running[ended] = (pid, caller)
            poll.register(ended, select.POLLIN)


def _become(request: bytes, streams: list[int], kept: Sequence[int]) -> None:
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
    for below, above in pairwise([2, *sorted(kept), 4096]):
        os.closerange(below + 1, above)
    arguments, environ, folder = json.loads(request)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]


def _import_all(package: str) -> None:
    # As both do before they import gRPC.
    from strandline_runtime.grpc_experiments import without_event_engine

    without_event_engine()
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _run_command() -> None:
    """As an interpreter ends, but for the objects: to free each would copy the parent's memory."""
    from strandline_cli.main import main

    status = 1
    try:
        main()
    except SystemExit as end:
        status = int(end.code or 0)
    threading._shutdown()  # type: ignore[attr-defined] # threads that are waited for at the end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _run_server() -> None:
    from strandline_broker.__main__ import main
    from strandline_runtime.log_output import end_process, take_over_stderr

    os.setsid()
    take_over_stderr()
    end_process(main())


def _fork_servers(descriptor: int) -> None:
    from strandline_local import processes

    os.set_inheritable(descriptor, False)
    forking = Forking(socket.socket(fileno=descriptor))
    processes.spawn = spawn_by(lambda: forking)


def _forks() -> None:
    kind, descriptor, *servers = sys.argv[1:]
    sys.path[0] = ""  # as with `python -c`
    kept = [int(each) for each in servers]
    if kind == COMMANDS:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        _import_all("strandline_cli")
        for name in _COMMANDS_IMPORT:
            importlib.import_module(name)
        if kept:
            _fork_servers(kept[0])
    else:
        import uvloop  # noqa: F401 - for the forks

        _import_all("strandline_broker")
    gc.freeze()
    _serve(socket.socket(fileno=int(descriptor)), kept)
    _run_command() if kind == COMMANDS else _run_server()


if __name__ == "__main__":
    _forks()
