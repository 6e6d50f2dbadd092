"""What a server's configuration says of each of its keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Key:
    """What one configuration key is. `default` is None if the key must be set."""

    name: str
    parse: Callable[[str], Any]
    default: str | None
    doc: str
    dynamic: bool
    """Whether it may be altered while the servers run. Whoever uses such a key reads it from
    `DynamicConfig.current` each time, and keeps no copy.
    """


def declared(
    parse: Callable[[str], Any], default: str | None, doc: str, *, dynamic: bool = False
) -> Any:
    """A field of a configuration that holds the value of the key of its name."""
    return field(metadata={"parse": parse, "default": default, "doc": doc, "dynamic": dynamic})
