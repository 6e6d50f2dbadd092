"""The rule that decides which builds may serve one cluster together.

A protocol level is a number for the messages between servers. A change that a server of the
previous level would misunderstand raises it. A build speaks all levels from its oldest to its
newest. It states them when it registers and when it answers a registration, as a feature
`protocol:OLDEST-NEWEST`, which older builds store without reading it. Two servers are compatible if
they share a level.

Builds from before there were levels state nothing, and have level 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_proto.errors import InvalidRequest, UnsupportedVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

_FEATURE: Final = "protocol:"
_RANGE: Final = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Levels:
    """The protocol levels that a server speaks, both ends included."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        if self.oldest == self.newest:
            return f"protocol level {self.newest}"
        return f"protocol levels {self.oldest} to {self.newest}"

    @property
    def features(self) -> tuple[str, ...]:
        return (f"{_FEATURE}{self.oldest}-{self.newest}",)


OURS: Final = Levels(oldest=0, newest=1)
"""The levels of this build. Level 1: servers state which levels they speak. A new level begins with
the change that needs it. The oldest level rises one release later at the earliest
(docs/guide/upgrades.md).
"""
UNTOLD: Final = Levels(0, 0)


def levels_of(features: Iterable[str]) -> Levels:
    """The levels in a server's features. Raises InvalidRequest if they are invalid."""
    named = [feature for feature in features if feature.startswith(_FEATURE)]
    if not named:
        return UNTOLD
    found = _RANGE.fullmatch(named[0].removeprefix(_FEATURE))
    levels = None if found is None else Levels(int(found[1]), int(found[2]))
    if levels is None or levels.oldest > levels.newest or len(named) > 1:
        raise InvalidRequest(
            f"the features {named} name no range of protocol levels: one of the form"
            f" {_FEATURE}0-1 is expected"
        )
    return levels


@dataclass(frozen=True, slots=True)
class Server:
    """One side of a conversation, as an error names it."""

    name: str
    """Name for messages, for instance `broker 1`."""
    build: str
    """The server's build; empty if it does not state one."""
    levels: Levels

    def __str__(self) -> str:
        return f"{self.name} runs build {self.build or 'unknown'} and speaks {self.levels}"


UNNAMED: Final = Server("this controller", "", OURS)


def check_fit(here: Server, there: Server) -> None:
    """Raises UnsupportedVersion, which names both and the remedy, if they share no level."""
    if there.levels.newest < here.levels.oldest:
        old, new = there, here
    elif here.levels.newest < there.levels.oldest:
        old, new = here, there
    else:
        return
    raise UnsupportedVersion(
        f"{there}; {here}: they share no level. Upgrade {old.name} to a build that speaks protocol"
        f" level {new.levels.oldest}, or run {new.name} with a build that speaks level"
        f" {old.levels.newest} (docs/guide/upgrades.md)"
    )
