"""The cluster under measure: one of its own in a temporary directory, or one that is there."""

import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator

from strandline_bench.options import Options
from strandline_cli.local_cluster import LocalCluster


@contextlib.contextmanager
def own_cluster(options: Options) -> Iterator[LocalCluster]:
    """A cluster that is described and not yet started, gone with its files at the end."""
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
def addresses(options: Options) -> Iterator[str]:
    """Bootstrap addresses of the given cluster, or of an own one that runs meanwhile."""
    if options.bootstrap is not None:
        yield options.bootstrap
        return
    with own_cluster(options) as cluster:
        cluster.up()
        yield cluster.bootstrap


@contextlib.asynccontextmanager
async def fresh_topic(bootstrap: str, prefix: str, options: Options) -> AsyncIterator[str]:
    """A new topic that is deleted at the end, so that rounds do not fill the disk.

    Its name is in no other run's way, not even in that of one which was killed.
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
