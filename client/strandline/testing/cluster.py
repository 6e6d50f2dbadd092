"""A running cluster as a test sees it, in blocking form.

`Cluster` has what every cluster can do. `RunningCluster` owns its processes, and can also break
them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline import NewTopic, TopicPartition, sync
from strandline.testing.clients import ConsumerFactory, ProducerFactory
from strandline.testing.ledger import Ledger
from strandline.testing.story import Story
from strandline.types import ConsumerRecord
from strandline_local import probe
from strandline_local.cluster_files import CONTROLLER
from strandline_local.errors import ClusterError
from strandline_local.local_cluster import ProcessId
from strandline_local.separable import SeparableCluster

if TYPE_CHECKING:
    from strandline.testing.aio import AsyncCluster
    from strandline_proto.v1 import metadata_pb2

WAIT_S: Final = 60.0
"""Default limit of every wait."""
ANSWER_S: Final = 10.0
"""Time in which an external cluster must answer."""
_ASK_S: Final = 5.0
_ATTEMPT_S: Final = 2.0
_POLL_S: Final = 0.02

T = TypeVar("T")


class Cluster:
    """A cluster that answers at `bootstrap`, for clients of both protocols."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        """Addresses of the brokers, `host:port,host:port`."""
        self.ledger = Ledger()
        self.producer = ProducerFactory(bootstrap, self.ledger)
        """Makes producers whose acknowledged records `assert_nothing_lost` checks."""
        self.consumer = ConsumerFactory(bootstrap)
        """Makes consumers."""
        self.story = Story(bootstrap, self._controller_address, self._logs())
        """The events of the cluster since the test began."""
        self._admin: sync.Admin | None = None

    @property
    def aio(self) -> "AsyncCluster":
        """The same cluster with coroutines in place of blocking calls."""
        from strandline.testing.aio import AsyncCluster

        return AsyncCluster(self)

    @property
    def admin(self) -> sync.Admin:
        """A started blocking `Admin`, which ends with the cluster."""
        if self._admin is None:
            admin = sync.Admin(self.bootstrap)
            admin.start()
            self._admin = admin
        return self._admin

    def _logs(self) -> dict[str, Path]:
        """The log files that this machine has, by the server's name."""
        return {}

    def _controller_address(self) -> str | None:
        """The controller's address for gRPC, if a broker names it."""
        for address in self._addresses():
            try:
                found = probe.ask_cluster(address, _ASK_S).controller
            except probe.NoAnswer:
                continue
            return probe.host_port(found.host, found.port)
        return None

    def close(self) -> None:
        """End what this object has started."""
        self.story.close()
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # Metadata.

    def _addresses(self) -> list[str]:
        """Addresses of the brokers that should answer."""
        return self.bootstrap.split(",")

    def _is_live(self, _broker: int) -> bool:
        return True

    def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = WAIT_S) -> int:
        """Returns the broker that leads the partition, and waits for an election if none does."""

        def leader() -> int | None:
            found = [p for p in self._partitions(topic) if p.index == partition]
            newest = max(found, key=lambda p: p.leader_epoch, default=None)
            if newest is None or newest.leader < 0 or not self._is_live(newest.leader):
                return None
            return newest.leader

        return self._eventually(leader, f"{topic}:{partition} has a leader", timeout_s)

    def wait_in_sync(self, topic: str, *, timeout_s: float = WAIT_S) -> None:
        """Waits until every broker reports all replicas of the topic in the ISR."""

        def in_sync() -> bool | None:
            seen = list(self._partitions(topic))
            return bool(seen) and all(
                p.leader >= 0
                and set(p.isr) == set(p.replicas)
                and all(map(self._is_live, p.replicas))
                for p in seen
            )

        self._eventually(in_sync, f"all replicas of {topic} are in sync", timeout_s)

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Creates a topic, waits until every broker knows it, and returns its name. -1 takes the
        number from the controller's configuration.
        """
        settings = {key: str(value) for key, value in (config or {}).items()}
        self.admin.create_topics([NewTopic(name, partitions, replication_factor, config=settings)])
        self.wait_known([name])
        return name

    def wait_known(self, topics: Sequence[str], *, timeout_s: float = WAIT_S) -> None:
        """Waits until every broker knows the topics, and a leader of each partition."""

        def known() -> bool:
            for address in self._addresses():
                answer = probe.ask_metadata(address, _ASK_S, topics=True)
                leaders = {t.name: [p.leader for p in t.partitions] for t in answer.topics}
                if any(not leaders.get(name) or min(leaders[name]) < 0 for name in topics):
                    return False
            return True

        self._eventually(known, f"every broker knows {', '.join(topics)}", timeout_s)

    def _partitions(self, topic: str) -> "Iterator[metadata_pb2.PartitionMetadata]":
        """The partitions of the topic, as each broker reports them."""
        for address in self._addresses():
            answer = probe.ask_metadata(address, _ASK_S, topics=True)
            named = [each for each in answer.topics if each.name == topic]
            if not named:
                raise probe.NoAnswer(f"{address} knows no topic {topic}")
            yield from named[0].partitions

    def _eventually(self, ask: Callable[[], T | None], what: str, timeout_s: float) -> T:
        """The first answer that is neither None nor False. Raises ClusterError at the limit."""
        deadline, last = time.monotonic() + timeout_s, ""
        while True:
            try:
                answer = ask()
                last = ""
            except probe.NoAnswer as why:
                answer, last = None, f" ({why})"
            if answer is not None and answer is not False:
                return answer
            if time.monotonic() >= deadline:
                raise ClusterError(f"not within {timeout_s:g} s: {what}{last}{self._obstacle()}")
            time.sleep(_POLL_S)

    def _obstacle(self) -> str:
        return ""

    # Records and offsets.

    def records(self, topic: str, *, timeout_s: float = WAIT_S) -> list[ConsumerRecord]:
        """Returns every committed record of the topic, by partition and offset."""
        wanted = [
            TopicPartition(topic, p.partition)
            for p in self.admin.describe_topics([topic])[topic].partitions
        ]
        options: dict[str, Any] = {"request_timeout_ms": timeout_s * 1000}
        found: list[ConsumerRecord] = []
        deadline = time.monotonic() + timeout_s
        with self.consumer(**options) as reader:
            reader.assign(wanted)
            ends = reader.end_offsets(wanted)
            for partition in wanted:
                reader.seek_to_beginning(partition)
            while any(reader.position(partition) < ends[partition] for partition in wanted):
                if time.monotonic() >= deadline:
                    raise ClusterError(
                        f"not within {timeout_s:g} s: all records of {topic} are read"
                        f"{self._obstacle()}"
                    )
                for batch in reader.getmany(timeout_ms=200).values():
                    found += batch
        within = [r for r in found if r.offset < ends[TopicPartition(topic, r.partition)]]
        return sorted(within, key=lambda r: (r.partition, r.offset))

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Returns the committed offsets of the group."""
        found = self.admin.list_group_offsets(group)
        return {partition: at.offset for partition, at in found.items()}

    def assert_nothing_lost(self) -> int:
        """Checks that the log has every record whose acknowledgement a producer of this cluster
        got, with the same key and value. Returns the number of records.

        Raises RecordsLost. In a pytest run, counts the records of the running test.
        """
        return self.ledger.check(self.records)


class ExternalCluster(Cluster):
    """A cluster that was started elsewhere. A test cannot break its processes."""

    def __init__(self, bootstrap: str, logs: Mapping[str, Path] | None = None) -> None:
        self._log_files = dict(logs or {})
        super().__init__(bootstrap)

    def _logs(self) -> dict[str, Path]:
        return self._log_files

    def check_answers(self, *, timeout_s: float = ANSWER_S, said_by: str = "bootstrap") -> None:
        """Raises ClusterError unless a broker answers in time."""
        deadline, reasons = time.monotonic() + timeout_s, dict[str, str]()
        while time.monotonic() < deadline:
            for address in self.bootstrap.split(","):
                try:
                    probe.ask_metadata(address, _ATTEMPT_S, topics=True)
                    return
                except probe.NoAnswer as why:
                    reasons[address] = str(why)
            time.sleep(_POLL_S)
        raise ClusterError(
            f"no broker of the cluster of {said_by} answers within {timeout_s:g} s: "
            f"{'; '.join(reasons.values())}. Start the cluster, or correct the address"
        )


class RunningCluster(Cluster):
    """A cluster of processes on this machine. Brokers are named by id, the controller by name."""

    def __init__(self, processes: SeparableCluster) -> None:
        self.processes = processes
        super().__init__(processes.bootstrap)

    @property
    def directory(self) -> Path:
        """The directory with the configuration, the data and the logs."""
        return self.processes.directory

    @property
    def brokers(self) -> list[int]:
        """Ids of the brokers."""
        return self.processes.broker_ids

    def log_file(self, process: ProcessId) -> Path:
        """The log file of a process."""
        return self.processes.process(process).log_file

    def kill(self, process: ProcessId) -> None:
        """Kills the process with SIGKILL, and waits for its end."""
        self.processes.kill(process)

    def stop(self, process: ProcessId) -> None:
        """Stops the process in order, with a controlled shutdown."""
        self.processes.stop(process)

    def start(self, process: ProcessId) -> None:
        """Starts the process, and waits until the cluster counts it."""
        self.processes.start(process)

    def pause(self, process: ProcessId) -> None:
        """Stops the process with SIGSTOP: it stays, and does nothing."""
        self.processes.pause(process)

    def resume(self, process: ProcessId) -> None:
        """Continues a paused process."""
        self.processes.resume(process)

    def cut_off(self, process: ProcessId) -> None:
        """Cuts the process off from the network. Raises ClusterError where that cannot be."""
        self.processes.cut_off(process)

    def rejoin(self, process: ProcessId) -> None:
        """Takes back `cut_off`."""
        self.processes.rejoin(process)

    def cannot_cut_off(self) -> str | None:
        """Returns the reason why this machine cannot cut a process off; None if it can."""
        return self.processes.cannot_cut_off

    def heal(self) -> None:
        """Takes back every fault, starts every process that does not run, and waits until the
        cluster answers and all replicas are in sync.
        """
        processes = self.processes
        for process in processes.is_cut_off:
            processes.rejoin(process)
        for process in processes.paused:
            processes.resume(process)
        dead = [each for each in processes.process_ids if processes.process(each).pid is None]
        for process in sorted(dead, key=lambda each: each != CONTROLLER):
            processes.start(process)
        processes.wait_ready()
        self._eventually(self._is_all_in_sync, "all replicas are in sync", WAIT_S)

    def _is_all_in_sync(self) -> bool:
        answers = (probe.ask_metadata(each, _ASK_S, topics=True) for each in self._addresses())
        partitions = (p for answer in answers for topic in answer.topics for p in topic.partitions)
        return all(set(p.isr) == set(p.replicas) for p in partitions)

    def close(self) -> None:
        """Kills every process."""
        super().close()
        self.processes.close()

    def _logs(self) -> dict[str, Path]:
        return {
            i if isinstance(i, str) else f"broker {i}": self.log_file(i)
            for i in self.processes.process_ids
        }

    def _controller_address(self) -> str | None:
        return self.processes.controller_address

    def _addresses(self) -> list[str]:
        live = [i for i in self.brokers if self._is_live(i)]
        return [self.processes.grpc_address(i) for i in live]

    def _is_live(self, broker: int) -> bool:
        processes = self.processes
        gone = broker in processes.paused or broker in processes.is_cut_off
        return broker in self.brokers and not gone and processes.process(broker).pid is not None

    def _obstacle(self) -> str:
        out = [each for each in self.brokers if not self._is_live(each)]
        if not out:
            return ""
        return f"; brokers {', '.join(map(str, out))} are dead, paused or cut off"
