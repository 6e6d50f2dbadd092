"""What a fetch names, and when it is asked for (I-9, P-75)."""

import asyncio
from types import SimpleNamespace
from typing import Any

from strandline_broker.core.replication.follower import Backoff, FetchPosition
from strandline_broker.hosts.common.fetch_messages import FetchedPartition, FetchResponse
from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
from strandline_broker.hosts.fetching.fetcher import BACKOFF_MS_MAX, Fetcher
from strandline_proto.errors import UnknownTopicOrPartition
from strandline_proto.ids import BrokerId, LeaderEpoch, Offset
from support.hand_clock import HandClock

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
        flushes=FlushSchedule(runtime.clock, current, dirs),
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
    await asyncio.wait_for(nudged, 60)
    assert fetcher.has_changes
    assert named(fetcher) == [7]
    assert not fetcher.has_changes
    fetcher.on_flushed(KEY)
    again = asyncio.create_task(fetcher.nudged())
    await asyncio.sleep(0)
    assert not again.done(), "nothing was left out"
    again.cancel()


async def test_partitions_that_are_refused_together_are_told_and_asked_for_together() -> None:
    """As when a leader has yet to make thousands of replicas, which is no fault for a second."""
    told: list[dict[str, Any]] = []
    log: Any = SimpleNamespace(info=lambda _, **fields: told.append(fields))
    runtime: Any = SimpleNamespace(
        log=SimpleNamespace(bind=lambda **_: log), clock=SimpleNamespace(monotonic=lambda: 0.0)
    )
    current: Any = SimpleNamespace(replica_fetch_max_bytes=1, flush_policy="replicated")
    config: Any = SimpleNamespace(current=current)
    unused: Any = None
    fetcher = Fetcher(
        runtime,
        config,
        BrokerId(1),
        streams=unused,
        flushes=FlushSchedule(runtime.clock, current, unused),
        truncations=unused,
        copies=unused,
    )
    keys = [(b"t" * 16, i) for i in range(1000)]
    for key in keys:
        machine = SimpleNamespace(
            may_fetch=True,
            next_fetch=lambda end, epoch: FetchPosition(end, LeaderEpoch(epoch), LeaderEpoch(0)),
            on_answer=lambda *_, **__: [Backoff("not here yet")],
        )
        role: Any = SimpleNamespace(machine=machine)
        files = SimpleNamespace(
            log_start_offset=0,
            log_end_offset=0,
            state=SimpleNamespace(durable_start=0),
            leader_epochs=SimpleNamespace(latest=lambda: 0),
        )
        partition: Any = SimpleNamespace(
            key=key, name=str(key[1]), log=files, role=role, gate=asyncio.Lock(), high_watermark=0
        )
        fetcher.add(partition, role)
    await fetcher.nudged()
    fetcher.next_request(0)
    refused = {key: FetchedPartition(error=UnknownTopicOrPartition()) for key in keys}
    for _ in range(2):  # what the leader says twice is refused once
        await fetcher.apply(FetchResponse(0, 1, partitions=refused), 0)
    assert told == []
    forgotten, asked = fetcher.next_request(1)
    assert (sorted(forgotten), asked) == (keys, {})
    await asyncio.wait_for(fetcher.nudged(), 60)
    assert len(fetcher.next_request(2)[1]) == 1000
    for target in fetcher._targets.values():
        target.backoff_ms = BACKOFF_MS_MAX  # it has gone on for a second
    await fetcher.apply(FetchResponse(0, 2, partitions=refused), 2)
    assert [fields["partitions"] for fields in told] == [1000]


async def test_a_leader_that_is_gone_for_a_minute_fills_no_log() -> None:
    clock, told = HandClock(), list[str]()
    log: Any = SimpleNamespace(
        info=lambda event, **_: told.append(event), debug=lambda event, **_: None
    )
    runtime: Any = SimpleNamespace(log=SimpleNamespace(bind=lambda **_: log), clock=clock)
    unused: Any = None

    class Gone:
        tries = 0

        async def run(self, *_: object) -> None:
            self.tries += 1
            raise ConnectionRefusedError("nothing listens there")

    gone: Any = Gone()
    fetcher = Fetcher(
        runtime,
        unused,
        BrokerId(1),
        streams=gone,
        flushes=unused,
        truncations=unused,
        copies=unused,
    )
    for _ in range(60):
        await fetcher._until_broken()
        clock.now_s += BACKOFF_MS_MAX / 1000
    assert gone.tries == 60
    assert told == ["fetching stopped"] * 6
