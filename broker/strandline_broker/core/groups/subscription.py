"""Which topics a group's members subscribe to, by name or by a regular expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.metadata_cache import MetadataView

INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class Matcher(Protocol):
    """The engine for regular expressions; it takes time linear in its input."""

    def check(self, regex: str) -> None:
        """Raises InvalidRegularExpression if it does not compile."""

    def matching(self, regex: str, names: Iterable[str]) -> tuple[str, ...]:
        """Those names that the expression matches whole, in the order given."""


def names_to_match(metadata: MetadataView) -> list[str]:
    """What a regular expression may match: every topic's name but the internal ones, sorted."""
    return sorted(name for name in metadata.ids_by_name if name not in INTERNAL)
