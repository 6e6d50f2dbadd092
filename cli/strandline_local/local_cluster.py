"""A cluster of real processes on this machine, in one directory: started, broken on purpose, and
stopped.

The class behind `strandline up`, the demos, the benchmarks and the integration tests. It starts no
thread and restarts no process by itself: a dead process stays dead until the caller starts it.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from strandline_local import probe
from strandline_local.cluster_files import (
    CONTROLLER,
    CONTROLLER_NODE_ID,
    DEFAULT_PORT,
    ClusterFile,
    check_not_decommissioned,
    check_resumes,
    new_cluster_file,
    read_cluster_file,
    with_kafka,
    with_metrics,
    with_transactions,
    write_cluster_files,
)
from strandline_local.console_process import stop_console
from strandline_local.errors import ClusterError, UsageMistake, remedy_of
from strandline_local.listeners import GRPC, ListenerAddress
from strandline_local.metadata_catch_up import applied_offsets, wait_beyond
from strandline_local.overrides import check_overrides
from strandline_local.own_disks import mount_disk, unmount_disks
from strandline_local.ownership import Owner
from strandline_local.patience import Patience
from strandline_local.processes import ServerProcess, how_it_ended
from strandline_runtime.real import port_is_free

ProcessId = int | str
"""A broker's id, or "controller"."""

READY_S: Final = 30.0
STOP_S: Final = 20.0
_POLL_S: Final = 0.02
_ATTEMPT_S: Final = 2.0
"""A question is asked again after that; what is starved answers late."""


class LocalCluster:
    """The cluster in `directory`. `create` makes a new one or opens an existing one; `open` needs
    an existing one.
    """

    def __init__(
        self, directory: Path, cluster: ClusterFile, *, owner: Owner | None = None
    ) -> None:
        """With an `owner`, the processes end with it. Without, they outlive this program."""
        self._owner = owner
        self.directory = directory
        self.file = cluster
        self._processes = {
            name: ServerProcess(
                name=name,
                pid_file=directory / "run" / f"{name}.pid",
                log_file=directory / "logs" / f"{name}.log",
            )
            for name in [CONTROLLER, *(f"broker-{i}" for i in cluster.broker_ports)]
        }

    def keep(self, cluster: ClusterFile) -> None:
        """Save `cluster`, which later commands use."""
        with self._starting():
            write_cluster_files(self.directory, cluster)

    @classmethod
    def create(
        cls,
        directory: Path | str,
        *,
        brokers: int | None = None,
        port: int | None = None,
        controller_config: Mapping[str, str] | None = None,
        broker_config: Mapping[str, str] | None = None,
        metrics_port: int | None = None,
        owner: Owner | None = None,
    ) -> Self:
        """The cluster in `directory`: the existing one, or a new one of `brokers` (3) from `port`
        (9092) upwards. `metrics_port` is the first port for metrics; None: as before.

        An existing cluster keeps its ports and its number of brokers; overrides are added to its
        own. One of an earlier build gets ports for gRPC beside its own, unless a process lives.
        """
        path = Path(directory).absolute()
        kept = read_cluster_file(path)
        runs = kept is not None and bool(cls(path, kept).alive())
        if kept is None:
            cluster = new_cluster_file(
                brokers=3 if brokers is None else brokers,
                port=DEFAULT_PORT if port is None else port,
                controller_config=controller_config,
                broker_config=broker_config,
            )
        else:
            check_resumes(path, kept, brokers=brokers, port=port)
            # The listeners of running processes stay as they are.
            former = kept if runs else with_transactions(with_kafka(kept))
            cluster = replace(
                former,
                controller_config={**former.controller_config, **(controller_config or {})},
                broker_config={**kept.broker_config, **(broker_config or {})},
            )
        if metrics_port is not None and not runs:
            cluster = with_metrics(cluster, metrics_port)
        check_overrides(cluster)
        made = cls(path, cluster, owner=owner)
        if kept is None:
            # Before anything is written: the directory must not name another cluster's addresses.
            for process_id in made.process_ids:
                made._check_port(process_id)
        write_cluster_files(path, cluster)
        return made

    @classmethod
    def open(cls, directory: Path | str) -> "LocalCluster":
        """The cluster that was started in `directory`."""
        path = Path(directory).absolute()
        cluster = read_cluster_file(path)
        if cluster is None:
            raise ClusterError(
                f"no cluster was started in {path}: start one with"
                f" `strandline up --dir {directory}`, or name its directory with --dir"
            )
        return cls(path, cluster)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, `host:port,host:port`, for clients of both protocols."""
        return self.file.bootstrap

    @property
    def grpc_bootstrap(self) -> str:
        """Addresses of all brokers for gRPC alone: no broker passes these connections on."""
        return self.file.grpc_bootstrap

    @property
    def controller_address(self) -> str:
        return self.file.controller_address

    @property
    def broker_ids(self) -> list[int]:
        return list(self.file.broker_ports)

    @property
    def process_ids(self) -> list[ProcessId]:
        return [CONTROLLER, *self.broker_ids]

    def address(self, process_id: ProcessId) -> str:
        """The process's address; of a broker, the one for both protocols."""
        broker_id = self._broker_id(process_id)
        if broker_id is None:
            return self.file.controller_address
        return self.file.broker_address(broker_id)

    def grpc_address(self, process_id: ProcessId) -> str:
        """The process's address for gRPC alone."""
        broker_id = self._broker_id(process_id)
        if broker_id is None:
            return self.file.controller_address
        return self.file.grpc_address(broker_id)

    def listeners(self, process_id: ProcessId) -> list[ListenerAddress]:
        """The process's listeners, each with its protocol."""
        broker_id = self._broker_id(process_id)
        if broker_id is None:
            return [ListenerAddress("CONTROLLER", GRPC, self.file.controller_address)]
        return self.file.listeners(broker_id)

    def metrics_address(self, process_id: ProcessId) -> str | None:
        """The process's address for metrics and health over HTTP; None if it has none."""
        broker_id = self._broker_id(process_id)
        return self.file.metrics_address(CONTROLLER_NODE_ID if broker_id is None else broker_id)

    def _broker_id(self, process_id: ProcessId) -> int | None:
        """The broker's id; None of the controller."""
        name = self._name(process_id)
        return None if name == CONTROLLER else int(name.removeprefix("broker-"))

    def data_directory(self, process_id: ProcessId) -> Path:
        return self.directory / self._name(process_id)

    def process(self, process_id: ProcessId) -> ServerProcess:
        return self._processes[self._name(process_id)]

    def name_of(self, process_id: ProcessId) -> str:
        """The process's name, for instance `broker-1`."""
        return self._name(process_id)

    def _name(self, process_id: ProcessId) -> str:
        text = str(process_id)
        name = text if text in self._processes else f"broker-{text}"
        if name not in self._processes:
            check_not_decommissioned(self.file, text)
            known = ", ".join(["controller", *map(str, self.broker_ids)])
            raise UsageMistake(f"no process {text} in {self.directory}: it has {known}")
        return name

    def alive(self) -> list[ProcessId]:
        """The processes that live now."""
        return [i for i in self.process_ids if self.process(i).pid is not None]

    def patience(self, wait_s: float, *process_ids: ProcessId) -> Patience:
        """A deadline that counts only time in which these processes (all, if none is named)
        idle.
        """
        watched = [self.process(process_id) for process_id in process_ids or self.process_ids]
        return Patience(wait_s, lambda: [pid for one in watched if (pid := one.pid) is not None])

    def died(self) -> list[ProcessId]:
        """Processes that were started, were not stopped, and are dead."""
        return [
            i for i in self.process_ids if self.process(i).recorded and self.process(i).pid is None
        ]

    # Starting.

    def up(self, *, wait_s: float = READY_S) -> None:
        """Start every process and wait until the cluster answers. Stops them all again if it does
        not.
        """
        with self._starting():
            if living := self.alive():
                names = ", ".join(map(str, living))
                raise ClusterError(
                    f"the cluster in {self.directory} is running ({names}): stop it with"
                    " `strandline down`, or start one process with `strandline start ID`"
                )
            for process_id in self.process_ids:
                self._check_port(process_id)
            try:
                for process_id in self.process_ids:
                    self.launch(process_id)
                self.wait_ready(wait_s=wait_s)
            except BaseException:
                self.kill_all()
                raise

    def start(self, process_id: ProcessId, *, wait_s: float = READY_S) -> None:
        """Start one process and wait until it answers. For a broker: until the controller, if it
        runs, counts it as alive. For the controller: until the brokers have caught up (P-76).
        """
        with self._starting():
            pid = self.process(process_id).pid
            if pid is not None:
                raise ClusterError(f"{self._title(process_id)} is running already (pid {pid})")
            self._check_port(process_id)
            is_controller = self._name(process_id) == CONTROLLER
            applied = applied_offsets(self) if is_controller and wait_s > 0 else {}
            self.launch(process_id)
        if wait_s > 0 and (is_controller or self.process(CONTROLLER).pid is not None):
            self.wait_process(process_id, wait_s=wait_s)
            wait_beyond(self, applied)

    def launch(self, process_id: ProcessId) -> None:
        """Start one process and wait for nothing."""
        name = self._name(process_id)
        mount_disk(self.directory, name)
        kind = CONTROLLER if name == CONTROLLER else "broker"
        config = str(self.directory / f"{name}.toml")
        argv = [sys.executable, "-m", "strandline_broker", kind, "--config", config]
        self._start(name, argv)

    def _start(self, name: str, argv: list[str]) -> None:
        inherited = () if self._owner is None else (self._owner.descriptor,)
        if self._owner is not None:
            argv = [*argv, "--owner-descriptor", str(self._owner.descriptor)]
        try:
            self._processes[name].start(
                argv, os.environ, inherited=inherited, groups=self._groups_of(name)
            )
        except OSError as why:
            raise ClusterError(
                f"{self._title(name)} cannot be started: {why.strerror or why}: {remedy_of(why)}"
            ) from why

    def _groups_of(self, _name: str) -> Sequence[int] | None:
        """Supplementary groups of users of that process; None: those of this program."""
        return None

    def _check_port(self, process_id: ProcessId) -> None:
        for address in dict.fromkeys((self.address(process_id), self.grpc_address(process_id))):
            host, _, port = address.rpartition(":")
            if not port_is_free(host, int(port)):
                raise ClusterError(
                    f"port {port} for {self._title(process_id)} is in use: stop what listens"
                    " there, or use another --dir with --port P (or --port 0 for free ones)"
                )
        metrics = self.metrics_address(process_id)
        if metrics is not None and not port_is_free(self.file.host, int(metrics.split(":")[-1])):
            raise ClusterError(
                f"{metrics} for the metrics of {self._title(process_id)} is in use: stop what"
                " listens there, or use `strandline up --metrics-port P` (0 for free ports)"
            )

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Two commands that start processes in one directory take turns."""
        import fcntl

        with (self.directory / ".starting").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ClusterError(
                    f"another command is starting processes in {self.directory}: wait for it"
                ) from None
            yield

    # Waiting.

    def wait_ready(self, *, wait_s: float = READY_S) -> None:
        """Wait until the controller counts every broker as alive, and every broker knows of every
        other.
        """
        deadline = self.patience(wait_s)
        for broker_id in self.broker_ids:
            self._await_unfenced(broker_id, deadline, watched=self.process_ids)
        everyone = set(self.broker_ids)
        for broker_id in self.broker_ids:
            self._await_metadata(broker_id, everyone, deadline, watched=self.process_ids)

    def wait_process(self, process_id: ProcessId, *, wait_s: float = READY_S) -> None:
        """Wait until one process answers and, for a broker, until the controller counts it as
        alive.
        """
        deadline = self.patience(wait_s, process_id)
        if self._name(process_id) == CONTROLLER:
            self._ask(process_id, deadline, watched=[process_id])
            return
        broker_id = int(self._name(process_id).removeprefix("broker-"))
        # The controller too: a broker may show it that it must not run (P-76).
        watched = [process_id, CONTROLLER]
        self._await_unfenced(broker_id, deadline, watched=watched)
        self._await_metadata(broker_id, {broker_id}, deadline, watched=watched)

    def _await_unfenced(
        self, broker_id: int, deadline: Patience, *, watched: list[ProcessId]
    ) -> None:
        while True:
            answer = self._ask(broker_id, deadline, watched=watched)
            pid = self.process(broker_id).pid
            if any(b.id == broker_id and b.pid == pid and b.state == "UNFENCED" for b in answer):
                return
            self._wait_a_little(broker_id, deadline)

    def _await_metadata(
        self, broker_id: int, expected: set[int], deadline: Patience, *, watched: list[ProcessId]
    ) -> None:
        while True:
            self._check_lives(watched)
            try:
                answer = probe.ask_metadata(self.grpc_address(broker_id), _ATTEMPT_S)
            except probe.NoAnswer:
                answer = None
            if answer is not None and expected <= {b.node_id for b in answer.brokers}:
                return
            self._wait_a_little(broker_id, deadline)

    def _ask(
        self, process_id: ProcessId, deadline: Patience, *, watched: list[ProcessId]
    ) -> list[probe.BrokerState]:
        """The controller's view of the brokers, asked until it answers."""
        while True:
            self._check_lives(watched)
            try:
                return probe.broker_states(self.controller_address, _ATTEMPT_S)
            except probe.NoAnswer:
                self._wait_a_little(process_id, deadline)

    def _check_lives(self, watched: list[ProcessId]) -> None:
        for process_id in watched:
            if self.process(process_id).pid is None:
                raise ClusterError(self.exit_report(process_id))

    def _wait_a_little(self, process_id: ProcessId, deadline: Patience) -> None:
        if deadline.is_over():
            process = self.process(process_id)
            hint = f"see {process.log_file}"
            if self.process(CONTROLLER).pid is None:
                hint = "the controller is not running: start it with `strandline start controller`"
            last = "".join(f"\n  {line}" for line in process.last_log_lines(3))
            raise ClusterError(f"{self._title(process_id)} does not answer in time; {hint}{last}")
        time.sleep(_POLL_S)

    def exit_report(self, process_id: ProcessId) -> str:
        process = self.process(process_id)
        status = process.exit_status
        how = "has ended" if status is None else how_it_ended(status)
        last = "".join(f"\n  {line}" for line in process.last_log_lines())
        return f"{self._title(process_id)} {how}; its log, {process.log_file}, ends with:{last}"

    def _title(self, process_id: ProcessId) -> str:
        name = self._name(process_id)
        return f"the {name}" if name == CONTROLLER else name.replace("-", " ")

    # Breaking and stopping.

    def stop(self, process_id: ProcessId, *, wait_s: float = STOP_S) -> None:
        """Send SIGTERM: the process stops serving, flushes, closes and ends. Sends SIGKILL if it
        has not ended in time although it was idle.
        """
        process = self.process(process_id)
        self._signal(process_id, signal.SIGTERM)
        process.send(signal.SIGCONT)  # a paused process could not act on it
        killed = not process.end_by(self.patience(wait_s, process_id))
        process.forget()
        if killed:
            raise ClusterError(
                f"{self._title(process_id)} did not stop within {wait_s:.0f} s and was killed;"
                f" see {process.log_file}"
            )

    def kill(self, process_id: ProcessId) -> None:
        """Send SIGKILL, and wait until the process is gone."""
        self._signal(process_id, signal.SIGKILL)
        self.process(process_id).wait_until_gone(STOP_S)
        self.process(process_id).forget()

    def crash(self, process_id: ProcessId) -> None:
        """Send SIGKILL without waiting for the end; `died` lists the process like any other dead
        one.
        """
        self._signal(process_id, signal.SIGKILL)

    def pause(self, process_id: ProcessId) -> None:
        """Send SIGSTOP: the process stays, and does nothing."""
        self._signal(process_id, signal.SIGSTOP)

    def resume(self, process_id: ProcessId) -> None:
        """Send SIGCONT."""
        self._signal(process_id, signal.SIGCONT)

    def restart(self, process_id: ProcessId, *, wait_s: float = READY_S) -> None:
        """Stop the process if it runs, start it, and wait until it answers."""
        if self.process(process_id).pid is not None:
            self.stop(process_id)
        self.start(process_id, wait_s=wait_s)

    def _signal(self, process_id: ProcessId, number: signal.Signals) -> None:
        if not self.process(process_id).send(number):
            raise ClusterError(
                f"{self._title(process_id)} is not running in {self.directory}:"
                f" start it with `strandline start {process_id}`"
            )

    def down(self, *, wait_s: float = STOP_S) -> list[ProcessId]:
        """Send SIGTERM to the console, to the brokers, then to the controller. Returns the servers
        that had to be killed.
        """
        stop_console(self.directory)
        forced: list[ProcessId] = []
        for group in (list[ProcessId](self.broker_ids), [CONTROLLER]):
            for process_id in group:
                self.process(process_id).send(signal.SIGTERM)
                self.process(process_id).send(signal.SIGCONT)
            deadline = self.patience(wait_s, *group)
            for process_id in group:
                process = self.process(process_id)
                if not process.end_by(deadline):
                    forced.append(process_id)
                process.forget()
        unmount_disks(self.directory)
        return forced

    def kill_all(self) -> None:
        """Send SIGKILL to every server at once, then wait for their end."""
        stop_console(self.directory)
        for process in self._processes.values():
            process.send(signal.SIGKILL)
        for process in self._processes.values():
            process.wait_until_gone(STOP_S)
            process.forget()
        unmount_disks(self.directory)

    def __enter__(self) -> "LocalCluster":
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()
