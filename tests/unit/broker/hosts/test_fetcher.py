"""What a fetch names, and when it is asked for (I-9, P-75)."""

import asyncio
from types import SimpleNamespace
from typing import Any

from strandline_broker.core.follower import FetchPosition
from strandline_broker.hosts.fetcher import Fetcher
from strandline_broker.hosts.flush_schedule import FlushSchedule
from strandline_proto.ids import BrokerId, LeaderEpoch, Offset

KEY = (b"t" * 16, 0)


def fetcher_of(log: object, asked: list[object]) -> Fetcher:
    """Of one partition, under flush.policy=always; flushes that are asked for go to `asked`."""
    runtime: Any = SimpleNamespace(
        log=SimpleNamespace(bind=lambda **_: None), clock=SimpleNamespace(monotonic=lambda: 0.0)
    )
    current: Any = SimpleNamespace(replica_fetch_max_bytes=1, flush_policy="always")
    config: Any = SimpleNamespace(current=current)
    dirs: Any = SimpleNamespace(request=asked.append)
    unused: Any = None
    follower: Any = SimpleNamespace(
        may_fetch=True,
        next_fetch=lambda end, epoch: FetchPosition(end, LeaderEpoch(epoch), LeaderEpoch(0)),
    )
    partition: Any = SimpleNamespace(key=KEY, log=log)
    fetcher = Fetcher(
        runtime,
        config,
        BrokerId(1),
        streams=unused,
        flushes=FlushSchedule(runtime.clock, current, dirs, tuple),
        truncations=unused,
        copies=unused,
    )
    following: Any = SimpleNamespace(machine=follower)
    fetcher.add(partition, following)
    return fetcher


def named(fetcher: Fetcher) -> list[int]:
    """The offsets that the next request asks for."""
    _, positions = fetcher.next_request(0)
    return [position.fetch_offset for position in positions.values()]


async def test_what_a_request_leaves_out_until_it_is_durable_is_asked_for_right_after() -> None:
    """As after a stream that broke between an append and its flush: the leader holds the request
    that did not name it.
    """
    log = SimpleNamespace(
        durable_offset=Offset(5),
        log_end_offset=Offset(7),
        state=SimpleNamespace(durable_start=0),
        leader_epochs=SimpleNamespace(latest=lambda: 0),
    )
    asked: list[object] = []
    fetcher = fetcher_of(log, asked)
    await fetcher.nudged()
    fetcher.begin()
    assert (named(fetcher), asked) == ([], [log])
    nudged = asyncio.create_task(fetcher.nudged())
    await asyncio.sleep(0)
    fetcher.on_flushed((b"u" * 16, 0))
    await asyncio.sleep(0)
    assert not nudged.done()
    log.durable_offset = log.log_end_offset
    fetcher.on_flushed(KEY)
    await asyncio.wait_for(nudged, 5)
    assert fetcher.has_changes
    assert named(fetcher) == [7]
    assert not fetcher.has_changes
    fetcher.on_flushed(KEY)
    again = asyncio.create_task(fetcher.nudged())
    await asyncio.sleep(0)
    assert not again.done(), "nothing was left out"
    again.cancel()
