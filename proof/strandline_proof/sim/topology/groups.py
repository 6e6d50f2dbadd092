"""The groups of a simulated cluster, and the habits of their members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random

ASSIGNORS: Final = ("uniform", "range")
CLASSIC: Final = "classic"
PROTOCOLS: Final = ("consumer", CLASSIC)
"""The library's members, or scripted ones that speak Kafka's protocol."""
STATIC: Final = "static"
"""A member with an instance id, which keeps its place when it stops."""
PATTERN: Final = "pattern"
"""A member that subscribes by a regular expression."""
MANUAL: Final = "manual"
"""A member that commits by itself, also before it gives partitions up; otherwise the library
commits.
"""
BUSY: Final = "busy"
"""A member that must poll again soon, or it is removed."""
HABITS: Final = (STATIC, PATTERN, MANUAL, BUSY)
NAMES: Final = ("gruppe-\N{ROCKET}", "polygenelubricants")
"""Names whose coordinator is easily miscounted: one has a character of two UTF-16 units, the other
a hash without an absolute value (P-153).
"""
MEMBERS_MAX: Final = 20
DRAWN: Final = 0.3
"""The share of the seeds that have groups."""


class ImpossibleGroup(ValueError):
    """No such group can be; the message says why."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: tuple[str, ...] = ("", MANUAL)
    """The habits of each, with spaces between them."""
    assignor: str = ASSIGNORS[0]
    protocol: str = PROTOCOLS[0]

    def __post_init__(self) -> None:
        if not 1 <= len(self.members) <= MEMBERS_MAX:
            raise ImpossibleGroup(
                f"a group has 1 to {MEMBERS_MAX} members, not {len(self.members)}"
            )
        for habits in self.members:
            unknown = set(habits.split()) - set(HABITS)
            if unknown:
                raise ImpossibleGroup(
                    f"the habits of a member, {habits!r}, are not of {', '.join(HABITS)}"
                )
        if self.protocol not in PROTOCOLS:
            raise ImpossibleGroup(f"protocol={self.protocol!r} is not of {', '.join(PROTOCOLS)}")
        if self.assignor not in ASSIGNORS:
            raise ImpossibleGroup(f"assignor={self.assignor!r} is not of {', '.join(ASSIGNORS)}")


def group_spec(found: Any) -> GroupSpec:
    """A group as a plan names it, which a person may have written. Raises ImpossibleGroup."""
    match found:
        case GroupSpec():
            return found
        case {"members": list(members), "assignor": str(assignor), **others}:
            protocol = others.pop("protocol", PROTOCOLS[0])
            if all(isinstance(habits, str) for habits in members) and not others:
                return GroupSpec(tuple(members), assignor, str(protocol))
    raise ImpossibleGroup(f"{found!r} is not a group of members (texts) and an assignor")


def group_name(number: int) -> str:
    return NAMES[number] if number < len(NAMES) else f"group-{number}"


def member_name(group: int, member: int) -> str:
    """The name of the member's machine."""
    return f"member-{group}-{member}"


def draw_group(rng: random.Random) -> GroupSpec:
    members = []
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
        habits = [
            h for h, share in zip(HABITS, (0.3, 0.3, 0.5, 0.2), strict=True) if rng.random() < share
        ]
        members.append(" ".join(habits))
    return GroupSpec(tuple(members), rng.choice(ASSIGNORS))
