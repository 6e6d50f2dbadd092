"""The measured cluster: a new one in a temporary directory, or a running one."""

import contextlib
import math
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Protocol

from strandline_bench.resources import cpu_s
from strandline_local.cluster_files import CONTROLLER
from strandline_local.local_cluster import LocalCluster


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
