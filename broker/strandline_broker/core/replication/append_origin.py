"""Where a batch comes from, which decides what is looked at before it is appended.

What a client sends is looked into: only a broker may say certain things of a batch, a producer's
batches follow each other, and records are held against the topic's configuration. None of it goes
to an internal topic (I-109). What a coordinator of this broker appends is its own: it writes
control batches and for transactions, and its records are not for the topic's users to bound. Both
need a leader of the epoch that they believe in, room by max.message.bytes, and enough replicas in
sync. What a leader has accepted its followers append as it is, checked for wholeness and place
alone (I-43): asked again by another clock, or under another configuration, replicas would differ.
"""

from __future__ import annotations

import enum


class AppendOrigin(enum.Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"

    @property
    def is_looked_into(self) -> bool:
        """Whether attributes, the producer's sequence and the records are."""
        return self is AppendOrigin.CLIENT
