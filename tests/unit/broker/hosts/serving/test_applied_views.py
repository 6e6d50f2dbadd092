"""Waits for the views that a broker publishes."""

import asyncio

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.serving.applied_views import AppliedViews
from support.envelopes import applied, envelope


async def test_a_wait_ends_with_the_view_that_it_waits_for() -> None:
    metadata = MetadataCache(cluster_id="cluster")
    views = AppliedViews(metadata)
    waits = [asyncio.create_task(views.until_offset(offset, 60.0)) for offset in (3, 5)]
    for offset, done in ((2, [False, False]), (3, [True, False]), (7, [True, True])):
        applied(metadata, envelope(offset, full=True))
        views.published()
        for _ in range(5):
            await asyncio.sleep(0)
        assert [wait.done() for wait in waits] == done
    assert [await wait for wait in waits] == [True, True]


async def test_a_wait_ends_at_its_limit() -> None:
    views = AppliedViews(MetadataCache(cluster_id="cluster"))
    assert await views.until_offset(3, 0.0) is False
    assert await views.until_offset(-1, 0.0) is True
