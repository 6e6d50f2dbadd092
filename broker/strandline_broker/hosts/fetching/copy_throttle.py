"""The two throttles of one broker: bytes copied out as a leader, and bytes copied in as a follower.

Rates are dynamic, and are read each time. A throttled partition is left out of one answer or
request and checked again soon. The other partitions of the stream continue, so no member of an ISR
waits for a copy.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.copy_quota import UNLIMITED, CopyQuota, chunk
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_runtime.runtime import Clock

LOOK_AGAIN_S: Final = 0.25
"""The longest time between two checks: a replica that has just joined the ISR is delayed no
longer.
"""


class LeaderThrottle:
    """The throttle of a leader's copies, shared by all fetch sessions."""

    def __init__(self, clock: Clock, config: DynamicConfig) -> None:
        self._clock = clock
        self._config = config
        self._quota = CopyQuota()

    def applies(self, partition: Partition, replica_id: int) -> bool:
        """True if the reader is a new replica, for which no producer waits."""
        if self._config.current.leader_replication_throttled_rate >= UNLIMITED:
            return False
        state, leader = partition.state, partition.leader
        return (
            state is not None
            and leader is not None
            and replica_id in state.adding
            and all(m.broker_id != replica_id for m in leader.maximal_isr)
        )

    def wait_s(self) -> float:
        """Time until the next check; 0: read now."""
        rate = self._config.current.leader_replication_throttled_rate
        wait_ms = self._quota.wait_ms(rate=rate, now_ms=monotonic_ms(self._clock))
        return min(wait_ms / 1000, LOOK_AGAIN_S)

    def limit(self, max_bytes: int) -> int:
        return chunk(self._config.current.leader_replication_throttled_rate, max_bytes)

    def on_copied(self, size: int) -> None:
        rate = self._config.current.leader_replication_throttled_rate
        self._quota.on_copied(size, rate=rate, now_ms=monotonic_ms(self._clock))


class FollowerThrottle:
    """The throttle of a follower's copies, shared by all fetchers."""

    def __init__(self, clock: Clock, config: DynamicConfig) -> None:
        self._clock = clock
        self._config = config
        self._quota = CopyQuota()

    def _applies(self, partition: Partition) -> bool:
        state, me = partition.state, self._config.current.node_id
        return (
            self._config.current.follower_replication_throttled_rate < UNLIMITED
            and state is not None
            and me in state.adding
            and all(m.broker_id != me for m in state.isr)
        )

    def wait_s(self, partition: Partition) -> float:
        """Known time that the partition's next fetch must wait; 0: none."""
        if not self._applies(partition):
            return 0.0
        rate = self._config.current.follower_replication_throttled_rate
        wait_ms = self._quota.wait_ms(rate=rate, now_ms=monotonic_ms(self._clock))
        return min(wait_ms / 1000, LOOK_AGAIN_S)

    def when_admitted(
        self, partition: Partition, go_on: Callable[[], None], *, is_wanted: Callable[[], bool]
    ) -> None:
        """Call `go_on` once the throttle permits it, unless it is no longer wanted by then."""

        def look() -> None:
            if is_wanted():
                if self.wait_s(partition) > 0:
                    self.when_admitted(partition, go_on, is_wanted=is_wanted)
                else:
                    go_on()

        asyncio.get_running_loop().call_later(self.wait_s(partition), look)

    def on_copied(self, partition: Partition, size: int) -> None:
        if self._applies(partition):
            rate = self._config.current.follower_replication_throttled_rate
            self._quota.on_copied(size, rate=rate, now_ms=monotonic_ms(self._clock))
