"""The operations that a client may carry out: all that apply, as in a Kafka without authorizer.

Each set of operations is a bit field. Source: Kafka's AclOperation and `supportedOperations`.
"""

from __future__ import annotations

from typing import Final

READ: Final = 3
WRITE: Final = 4
CREATE: Final = 5
DELETE: Final = 6
ALTER: Final = 7
DESCRIBE: Final = 8
CLUSTER_ACTION: Final = 9
DESCRIBE_CONFIGS: Final = 10
ALTER_CONFIGS: Final = 11
IDEMPOTENT_WRITE: Final = 12


def _bits(*operations: int) -> int:
    return sum(1 << each for each in operations)


NOT_ASKED: Final = -(1 << 31)
ON_TOPIC: Final = _bits(
    READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
)
ON_CLUSTER: Final = _bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)


def as_set(operations: int) -> set[int]:
    """The bit field as kafka-python's encoder takes it."""
    return {bit for bit in range(31) if operations >> bit & 1}
