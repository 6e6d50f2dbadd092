"""The origin of a batch, which decides what is checked before it is appended.

- A batch from a client is checked fully. Only a broker may set certain attributes, a producer's
  batches must follow each other, and records must obey the topic's configuration. No client may
  write to an internal topic (I-109).
- A batch from a coordinator of this broker is trusted. The coordinator writes control batches and
  transactional ones, and the topic's limits for users do not apply to its records.
- Both need a leader of the epoch that they expect, room by max.message.bytes, and enough replicas
  in sync.
- A follower appends the batches that its leader accepted. It checks only their wholeness and place
  (I-43): with another clock or configuration, a full check could make replicas differ.
"""

from __future__ import annotations

import enum


class AppendOrigin(enum.Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"

    def __init__(self, name: str) -> None:
        self.is_looked_into = name == "client"
        """True if attributes, the producer's sequence and the records are checked."""
