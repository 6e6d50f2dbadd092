"""The names of the cluster's internal topics: exactly these two, as in Kafka. Any other topic whose
name begins with two underscores belongs to a user.

Internal topics are listed only on request. Only a coordinator writes to them (I-109), and no user
can create, widen or delete them.
"""

from __future__ import annotations

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
