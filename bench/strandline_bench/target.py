"""The measured cluster: a new one in a temporary directory, or a running one."""

import contextlib
import math
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from strandline_bench.resources import cpu_s
from strandline_local import probe
from strandline_local.cluster_files import CONTROLLER
from strandline_local.local_cluster import LocalCluster

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
"""A new cluster makes these topics in its first seconds."""
SETTLED_S: Final = 60.0
CALL_S: Final = 5.0
LOOK_S: Final = 0.05


class OwnCluster(Protocol):
    """The options of a benchmark's new cluster."""

    @property
    def brokers(self) -> int: ...
    @property
    def flush_policy(self) -> str: ...


class AnyCluster(OwnCluster, Protocol):
    @property
    def bootstrap(self) -> str | None: ...


class OfTopic(Protocol):
    @property
    def partitions(self) -> int: ...
    @property
    def replication_factor(self) -> int: ...
    @property
    def min_insync_replicas(self) -> int: ...


@contextlib.contextmanager
def own_cluster(options: OwnCluster) -> Iterator[LocalCluster]:
    """A new cluster, configured and not yet started; its files are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        cluster = LocalCluster.create(
            folder,
            brokers=options.brokers,
            port=0,
            broker_config={"flush.policy": options.flush_policy},
        )
        try:
            yield cluster
        finally:
            cluster.kill_all()


def until_settled(cluster: LocalCluster) -> None:
    """Waits until every broker has its logs of the internal topics.

    The brokers sync the files of each new log. The file system writes out produced records with
    them, so the start of a cluster would be a part of a throughput. Raises TimeoutError after
    `SETTLED_S`.
    """
    deadline = time.monotonic() + SETTLED_S
    while not all(_has_its_logs(cluster, topic) for topic in INTERNAL_TOPICS):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{' and '.join(INTERNAL_TOPICS)} are not made in {SETTLED_S:.0f} s")
        time.sleep(LOOK_S)


def _has_its_logs(cluster: LocalCluster, topic: str) -> bool:
    """True if the brokers together have a log for each replica of the topic."""
    from strandline.errors import UnknownTopicOrPartition
    from strandline.sync import Admin

    with Admin(cluster.grpc_bootstrap) as admin:
        try:
            partitions = admin.describe_topics([topic])[topic].partitions
        except UnknownTopicOrPartition:
            return False
    logs = 0
    for broker_id in cluster.broker_ids:
        answer = probe.ask_log_dirs(cluster.grpc_address(broker_id), [topic], CALL_S)
        logs += sum(len(each.replicas) for each in answer.log_dirs)
    return logs == sum(len(each.replicas) for each in partitions)


@contextlib.contextmanager
def addresses(options: AnyCluster) -> Iterator[str]:
    """Bootstrap addresses of the given cluster, or of a new one that runs meanwhile."""
    with running(options) as target:
        yield target.bootstrap


@dataclass(frozen=True, slots=True)
class Target:
    """A running cluster, and the processes of its brokers if they are ours."""

    bootstrap: str
    pids: tuple[int, ...] = ()
    controllers: tuple[int, ...] = ()

    def brokers_cpu_s(self) -> float:
        """Seconds of a core that all brokers have used; not a number if they are not ours."""
        return sum(map(cpu_s, self.pids)) if self.pids else math.nan


@contextlib.contextmanager
def running(options: AnyCluster) -> Iterator[Target]:
    """The given cluster, or a new one that runs meanwhile."""
    if options.bootstrap is not None:
        yield Target(options.bootstrap)
        return
    with own_running(options) as target:
        yield target


@contextlib.contextmanager
def own_running(options: OwnCluster) -> Iterator[Target]:
    with own_cluster(options) as cluster:
        cluster.up()
        until_settled(cluster)
        pids = [cluster.process(broker_id).pid for broker_id in cluster.broker_ids]
        controller = cluster.process(CONTROLLER).pid
        yield Target(
            cluster.grpc_bootstrap,
            tuple(pid for pid in pids if pid is not None),
            () if controller is None else (controller,),
        )


@contextlib.asynccontextmanager
async def fresh_topic(bootstrap: str, prefix: str, options: OfTopic) -> AsyncIterator[str]:
    """A new topic that is deleted at the end, so that rounds do not fill the disk.

    Its name collides with no other run's, not even with a killed one's.
    """
    from strandline import Admin, NewTopic

    name = f"{prefix}-{secrets.token_hex(4)}"
    async with Admin(bootstrap) as admin:
        await admin.create_topics(
            [
                NewTopic(
                    name,
                    num_partitions=options.partitions,
                    replication_factor=options.replication_factor,
                    config={"min.insync.replicas": str(options.min_insync_replicas)},
                )
            ]
        )
        try:
            yield name
        finally:
            await admin.delete_topics([name])
