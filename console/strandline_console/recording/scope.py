"""The part of the partitions that a page sees, so that ten thousand of them never freeze it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline_console.messages import Window
from strandline_console.recording.entities import (
    Maps,
    order_on_board,
    partition_of_replica,
    topic_and_number,
)

COUNT: Final = 100
COUNT_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Scope:
    """A window in the order of the board, or partitions by name. `ALL` is everything."""

    first: int = 0
    count: int = COUNT
    text: str = ""
    """Part of the topic's name, in either case."""
    named: tuple[str, ...] = ()
    is_all: bool = False

    def choose(self, ordered: Sequence[str]) -> tuple[frozenset[str], Window]:
        """The partitions of the scope, out of all in the order of the board."""
        if self.is_all:
            return frozenset(ordered), Window(first=0, count=len(ordered), total=len(ordered))
        if self.named:
            here = set(ordered)
            found = frozenset(name for name in self.named if name in here)
            return found, Window(first=0, count=len(found), total=len(found))
        matching = ordered
        if self.text:
            part = self.text.lower()
            matching = [name for name in ordered if part in topic_and_number(name)[0].lower()]
        window = matching[self.first : self.first + self.count]
        return frozenset(window), Window(first=self.first, count=len(window), total=len(matching))


ALL: Final = Scope(is_all=True)


def ordered_partitions(maps: Maps) -> list[str]:
    """All partitions that the controller or a broker has reported, in the order of the board."""
    names = set(maps["partitions"])
    names.update(map(partition_of_replica, maps["replicas"]))
    return sorted(names, key=order_on_board)


def within(changed: dict[str, Any], partitions: Collection[str]) -> dict[str, Any]:
    """The part of some maps (of patches, or of whole entities) that a scope has."""
    found: dict[str, Any] = {}
    for name, entities in changed.items():
        kept = entities
        if name == "partitions":
            kept = {key: each for key, each in entities.items() if key in partitions}
        elif name == "replicas":
            kept = {
                key: each
                for key, each in entities.items()
                if partition_of_replica(key) in partitions
            }
        if kept:
            found[name] = kept
    return found


def removed_within(removed: dict[str, list[str]], partitions: Collection[str]) -> dict[str, Any]:
    """The removed keys that a scope has."""
    as_maps = {name: dict.fromkeys(keys) for name, keys in removed.items()}
    return {name: list(keys) for name, keys in within(as_maps, partitions).items()}
