"""A broker's decisions about an administrator's request before the controller gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.topics.configs import GROUP
from strandline_broker.core.groups.group_config import check_group_configs
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.groups.settings import GroupSettings

TIMEOUT_S_MIN: Final = 0.1
TIMEOUT_S_DEFAULT: Final = 30.0
TIMEOUT_S_MAX: Final = 300.0


def refused_configs(
    resource_type: int, entries: Mapping[str, str], settings: GroupSettings
) -> WireError | None:
    """Returns the broker's reason to refuse the new values; None if the controller decides.

    The bounds of a group's keys are the brokers' own.
    """
    if resource_type != GROUP:
        return None
    try:
        check_group_configs(entries, settings)
    except WireError as error:
        return error
    return None


def timeout_s(timeout_ms: int) -> float:
    """Returns the request's own limit within bounds; a request without one gets the default."""
    if timeout_ms <= 0:
        return TIMEOUT_S_DEFAULT
    return min(max(timeout_ms / 1000, TIMEOUT_S_MIN), TIMEOUT_S_MAX)
