"""The two throttles of one broker: what it copies out as a leader, and in as a follower.

Rates are dynamic, and read each time. A throttled partition is left out of one answer or one
request and looked at again soon; the others of the same stream go on, so no member of an ISR waits
for a copy.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.copy_quota import UNLIMITED, CopyQuota, chunk
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.member.dynamic_config import DynamicConfig
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_runtime.runtime import Clock

LOOK_AGAIN_S: Final = 0.25
"""The longest time between two looks: a replica that has just joined the ISR is held no longer."""


class LeaderThrottle:
    """Shared by all fetch sessions."""

    def __init__(self, clock: Clock, config: DynamicConfig) -> None:
        self._clock = clock
        self._config = config
        self._quota = CopyQuota()

    def applies(self, partition: Partition, replica_id: int) -> bool:
        """Whether that reader is a new replica, which nobody waits for."""
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
        """How long until the next look; 0: read now."""
        rate = self._config.current.leader_replication_throttled_rate
        wait_ms = self._quota.wait_ms(rate=rate, now_ms=monotonic_ms(self._clock))
        return min(wait_ms / 1000, LOOK_AGAIN_S)

    def limit(self, max_bytes: int) -> int:
        return chunk(self._config.current.leader_replication_throttled_rate, max_bytes)

    def on_copied(self, size: int) -> None:
        rate = self._config.current.leader_replication_throttled_rate
        self._quota.on_copied(size, rate=rate, now_ms=monotonic_ms(self._clock))


class FollowerThrottle:
    """Shared by all fetchers."""

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
        """How long the next fetch of it is to wait, as far as is known; 0: not at all."""
        if not self._applies(partition):
            return 0.0
        rate = self._config.current.follower_replication_throttled_rate
        wait_ms = self._quota.wait_ms(rate=rate, now_ms=monotonic_ms(self._clock))
        return min(wait_ms / 1000, LOOK_AGAIN_S)

    def when_admitted(
        self, partition: Partition, go_on: Callable[[], None], *, is_wanted: Callable[[], bool]
    ) -> None:
        """Call `go_on` once the throttle lets it, unless it is not wanted any more by then."""

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
