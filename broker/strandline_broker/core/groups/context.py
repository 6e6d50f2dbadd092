"""What decisions about groups are made with, beside the groups."""

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
    """In the order of the configuration."""
    matcher: Matcher
    inputs: Inputs
    told_epochs: Mapping[tuple[str, str], Collection[int]]
    """By group and member id, those that a member may have: the last that it has said, and what it
    was told since.
    """
