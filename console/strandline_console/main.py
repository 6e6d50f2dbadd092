"""The console's process: the watch of a cluster, its recording, and the server of its pages."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import socket
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_console.recording.archive import BYTES_MAX
from strandline_console.recording.recorder import Recorder
from strandline_console.serving.pulse import Pulse
from strandline_console.serving.security import Actions, is_loopback
from strandline_console.watching.cluster_watch import watch_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from starlette.routing import Route

    from strandline_console.faults.lab import Lab
    from strandline_console.faults.machines import ComposeMachine, LocalMachine, Machine
    from strandline_console.watching.cluster_watch import ClusterWatch
    from strandline_runtime.runtime import Runtime

HOST: Final = "127.0.0.1"
PORT: Final = 8080
WAIT_S: Final = 10.0
PIPELINE_FILE: Final = "pipeline.toml"
_SHUTDOWN_S: Final = 2


class ConsoleError(Exception):
    """The console cannot start, or has to end. The text is one sentence for its user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `strandline console`."""

    bootstrap: str
    host: str = HOST
    port: int = PORT
    wait_s: float = WAIT_S
    """Time in which a first broker has to answer."""
    bytes_max: int = BYTES_MAX
    token: str | None = None
    """None: a new one."""
    directory: Path | None = None
    """The directory of a cluster that `strandline up` made; None: the cluster is not ours."""
    compose: bool = False
    """True if the cluster is that of docker-compose.yml here."""
    pipelines: tuple[str, ...] = ()
    """Files of pipelines whose tables are shown."""


def run_console(options: Options) -> None:
    """Run the console until SIGINT or SIGTERM. Raises ConsoleError."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_Console(options).run())


def compose_addresses() -> str:
    """The brokers of the docker-compose.yml here. Raises ClusterError."""
    from strandline_console.faults.machines import compose_bootstrap

    return compose_bootstrap()


def pipeline_files(given: Sequence[str]) -> tuple[str, ...]:
    """The files of pipelines, each given as such or by its folder. Raises ConsoleError."""
    from strandline_console.tables.reader import why_no_tables

    if given and (reason := why_no_tables()):
        raise ConsoleError(reason)
    found: dict[str, None] = {}
    for each in given:
        path = os.path.abspath(each)
        file = os.path.join(path, PIPELINE_FILE) if os.path.isdir(path) else path
        if not os.path.isfile(file):
            raise ConsoleError(
                f"--pipeline {each}: there is no file {file}: give a {PIPELINE_FILE}, or the folder"
                " that has one"
            )
        found[file] = None
    return tuple(found)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConsoleError with a sentence for the user."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as why:
        listener.close()
        if why.errno == errno.EADDRINUSE:
            raise ConsoleError(
                f"port {port} of {host} is in use: stop what listens there, or give another --port"
                " (0: a free one)"
            ) from None
        raise ConsoleError(f"cannot listen on {host}:{port}: {why.strerror or why}") from None
    except OverflowError:
        listener.close()
        raise ConsoleError(f"{port} is no port: give one from 0 to 65535") from None
    listener.setblocking(False)
    return listener


class _Console:
    def __init__(self, options: Options) -> None:
        from strandline_runtime.real import client_runtime

        self._options = options
        self._runtime: Runtime = client_runtime()
        self._token = options.token or secrets.token_urlsafe(18)
        self._loopback = is_loopback(options.host)
        self._machine = _machine_of(options)
        self._fault_reason = self._why_no_faults()

    def _why_no_faults(self) -> str | None:
        if not self._loopback:
            return _read_only(self._options.host)
        if self._machine is None:
            return (
                f"the cluster at {self._options.bootstrap} was not made by `strandline up` on this"
                " machine: faults hit such a cluster (--dir) or that of docker-compose.yml"
                " (--compose)"
            )
        return None

    async def run(self) -> None:
        options, clock = self._options, self._runtime.clock
        listener = bind(options.host, options.port)
        with contextlib.closing(listener):
            recorder = Recorder(
                secrets.token_hex(4),
                lambda: int(clock.time() * 1000),
                bytes_max=options.bytes_max,
            )
            pulse = Pulse(recorder, clock.monotonic)
            recorder.on_change = pulse.changed
            watch = watch_cluster(
                options.bootstrap.split(","), recorder, self._runtime.network, clock
            )
            if self._machine is not None:
                watch.find_controller = partial(_find_controller, self._machine)
            await _until_stopped(self._tasks(watch, pulse, listener))

    async def _tasks(self, watch: ClusterWatch, pulse: Pulse, listener: socket.socket) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run(), name="watch the cluster")
            tasks.create_task(pulse.run(), name="make frames")
            await self._first_answer(watch)
            if self._options.pipelines:
                tasks.create_task(self._read_tables(pulse.recorder), name="read the tables")
            lab = self._lab(pulse.recorder, tasks)
            routes = self._routes(watch, pulse, lab)
            try:
                await self._serve(routes, pulse, listener)
            finally:
                await asyncio.shield(lab.close())
            raise asyncio.CancelledError

    def _lab(self, recorder: Recorder, tasks: asyncio.TaskGroup) -> Lab:
        from strandline_console.faults.lab import Lab
        from strandline_console.faults.workload import CheckingWorkload

        clock, workload = self._runtime.clock, None
        if self._fault_reason is None:
            first_value = int(clock.time() * 1000) * 1000
            workload = CheckingWorkload(
                recorder.live, self._options.bootstrap, clock.monotonic, first_value
            )
            tasks.create_task(workload.run(), name="checking workload")
        return Lab(
            recorder,
            workload,
            self._machine if self._fault_reason is None else None,
            reason=self._fault_reason,
            clock=clock,
            tasks=tasks,
        )

    async def _read_tables(self, recorder: Recorder) -> None:
        from strandline_console.tables.reader import TablesReader

        await TablesReader(self._options.pipelines, recorder).run()

    async def _first_answer(self, watch: ClusterWatch) -> None:
        """Wait until the cluster was found. Raises ConsoleError after `wait_s`."""
        try:
            async with asyncio.timeout(self._options.wait_s):
                await watch.found.wait()
        except TimeoutError:
            raise ConsoleError(
                f"no cluster answers at {self._options.bootstrap}: {watch.reason}; check the"
                " addresses, or start the cluster with `strandline up`"
            ) from None

    async def _serve(self, routes: Sequence[Route], pulse: Pulse, listener: socket.socket) -> None:
        import uvicorn

        from strandline_console.serving.app import build_app

        app: Any = build_app(routes, loopback=self._loopback)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            loop="none",
            ws="none",
            timeout_graceful_shutdown=_SHUTDOWN_S,
        )
        server = uvicorn.Server(config)
        # The signals are the console's: its tasks end in order.
        setattr(server, "capture_signals", contextlib.nullcontext)  # noqa: B010
        self._announce(listener)
        try:
            await server.serve(sockets=[listener])
        finally:
            pulse.end()

    def _routes(self, watch: ClusterWatch, pulse: Pulse, lab: Lab) -> Sequence[Route]:
        from strandline_console.records.reader import RecordReader
        from strandline_console.serving.app import Facts, RecordingRoutes
        from strandline_console.serving.fault_routes import FaultRoutes
        from strandline_console.serving.record_routes import record_routes

        reason = None if self._loopback else _read_only(self._options.host)
        actions = Actions(self._token, read_only_reason=reason)
        facts = Facts(
            bootstrap=self._options.bootstrap, has_tables=len(self._options.pipelines) > 0
        )
        reader = RecordReader(self._runtime.network, watch.brokers)
        return [
            *RecordingRoutes(pulse, facts, actions).routes(),
            *record_routes(reader),
            *FaultRoutes(lab, pulse.recorder.live, actions).routes(),
        ]

    def _announce(self, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/"
        lines = [f"The console is at {address}"]
        if self._fault_reason is None:
            given = self._options.token is not None  # its owner has it, and a log must not
            lines.append(f"Token for faults: {'as given' if given else self._token}")
        elif not self._loopback:
            lines.append("It is read-only, because it does not listen on loopback.")
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()


def _read_only(host: str) -> str:
    return f"the console is read-only, because it listens on {host}: start it on 127.0.0.1 to act"


def _machine_of(options: Options) -> LocalMachine | ComposeMachine | None:
    from strandline_console.faults.machines import compose_machine, local_machine

    if options.compose:
        return compose_machine()
    return None if options.directory is None else local_machine(options.directory)


async def _find_controller(machine: Machine) -> str | None:
    from strandline_local.errors import ClusterError

    try:
        return await asyncio.to_thread(machine.find_controller)
    except ClusterError:
        return None


async def _until_stopped(work: Any) -> None:
    """Run until the work ends, or SIGINT or SIGTERM comes."""
    loop = asyncio.get_running_loop()
    failed: list[BaseException] = []

    async def run() -> None:
        try:
            await work
        except* ConsoleError as why:
            failed.append(why.exceptions[0])

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run(), name="console")
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            await asyncio.wait([task])
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
    if failed:
        raise failed[0]
