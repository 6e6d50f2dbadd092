"""The surroundings of decisions about groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from strandline_broker.core.groups.assignors import Assignor
    from strandline_broker.core.groups.commands import Inputs
    from strandline_broker.core.groups.consumer.subscription import Matcher
    from strandline_broker.core.groups.settings import GroupSettings


@dataclass(frozen=True, slots=True)
class Context:
    settings: GroupSettings
    assignors: Mapping[str, Assignor]
    """Assignors in the order of the configuration."""
    matcher: Matcher
    inputs: Inputs
    told_epochs: Mapping[tuple[str, str], Collection[int]]
    """Epochs that a member may have, by group and member id: the last that it has reported, and
    those sent to it since.
    """
