"""The operations on a group that a client may carry out: all, as in a Kafka without authorizer."""

from __future__ import annotations

from typing import Final

NOT_ASKED: Final = -(1 << 31)
_READ: Final = 3
_DELETE: Final = 6
_DESCRIBE: Final = 8
_DESCRIBE_CONFIGS: Final = 10
_ALTER_CONFIGS: Final = 11
"""Kafka's codes of operations on groups (`AclOperation`)."""
_ALL: Final = sum(
    1 << code for code in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
)


def operations_of_a_group(is_asked: bool) -> int:
    """Returns the bit field of operations; the least number if the client does not ask."""
    return _ALL if is_asked else NOT_ASKED
