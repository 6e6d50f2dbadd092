"""The code of a coordinator's shards, which a broker imports for its first shard: most brokers
never have one.

All of it takes some fifty milliseconds of processor time. A shard with a log to load has its code
imported on the disk's thread first, beside which the event loop goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.record_codec import load_record_codec

if TYPE_CHECKING:
    from collections.abc import Callable


class ShardCode:
    """The modules of one kind of shard. A process has them once, for all its brokers."""

    def __init__(self, import_application: Callable[[], None]) -> None:
        """`import_application` imports the modules of the application."""
        self._import_application = import_application
        self.is_loaded = False
        """True once everything is imported. It may be imported though it is False."""

    def load(self) -> None:
        """Imports everything, on any thread."""
        import strandline_broker.hosts.coordination.shard_context
        import strandline_broker.hosts.coordination.shard_host  # noqa: F401

        self._import_application()
        load_record_codec()
        self.is_loaded = True
