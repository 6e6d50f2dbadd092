"""The parts that all shards of one coordinator topic share on a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.hosts.coordination.timers import Timers
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from strandline_broker.config.parsers import RecordPlace
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_runtime.runtime import Runtime


class LoadSettings(NamedTuple):
    """The configuration of a load."""

    buffer_bytes: int
    skipped_records: Collection[RecordPlace]
    """Records that a load skips if they do not parse."""
    skip_key: str
    """Name of the key that lists them."""


class ShardContext:
    def __init__(
        self,
        runtime: Runtime,
        node_id: int,
        dirs: LogDirs,
        loads: LoadSettings,
        *,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`spawn` starts a task that ends with the broker."""
        self.runtime = runtime
        self.me = node_id
        self.dirs = dirs
        self.loads = loads
        self.spawn = spawn
        self.timers = Timers(self.now_ms)

    def now_ms(self) -> int:
        return monotonic_ms(self.runtime.clock)

    def wall_ms(self) -> int:
        return wall_ms(self.runtime.clock)
