"""The declaration of one configuration key of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Key:
    """The declaration of one configuration key. `default` is None if the key must be set."""

    name: str
    parse: Callable[[str], Any]
    default: str | None
    doc: str
    dynamic: bool
    """True if the key may be altered while the servers run. Code that uses such a key reads it from
    `DynamicConfig.current` each time, and keeps no copy.
    """


def declared(
    parse: Callable[[str], Any], default: str | None, doc: str, *, dynamic: bool = False
) -> Any:
    """A configuration field that holds the value of the key with the field's name."""
    return field(metadata={"parse": parse, "default": default, "doc": doc, "dynamic": dynamic})
