"""The topics that the cluster keeps for itself, by name: exactly these two, as in Kafka. Another
one whose name begins with two underscores is somebody's.

They are not listed unless asked for, nobody but a coordinator writes to them (I-109), and nobody
makes, widens or deletes them.
"""

from __future__ import annotations

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
