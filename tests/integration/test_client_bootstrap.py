"""The first connection, made before the cluster is there."""

import asyncio

from strandline._net.session import Session
from support.cluster import DEADLINE_S, MakeCluster


async def test_an_address_that_refuses_is_tried_again_until_somebody_listens(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(up=False, brokers=1)
    # The name beside it that does not resolve changes nothing.
    bootstrap = ("name.invalid:9092", cluster.bootstrap)
    session = Session("test", bootstrap, None)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        opening = group.create_task(session.open(DEADLINE_S, lambda: None))
        while cluster.bootstrap not in session.cluster._failed:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.02)
        assert not opening.done()
        await asyncio.to_thread(cluster.up)
        await opening
        # The broker itself answers before it knows that it lives.
        while not session.cluster.view.brokers:
            await session.cluster.refresh(DEADLINE_S)
    assert list(session.cluster.view.brokers) == [1]
    await session.close()
