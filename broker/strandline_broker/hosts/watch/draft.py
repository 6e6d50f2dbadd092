"""The content that a look at a server collects, until a frame takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from strandline_broker.hosts.watch.content import Content

if TYPE_CHECKING:
    from strandline_broker.hosts.common.events import Events
    from strandline_broker.hosts.watch.content import Identity
    from strandline_broker.hosts.watch.selection import Selection
    from strandline_runtime.runtime import Clock


class Draft:
    def __init__(self) -> None:
        self.content = Content()

    def take(self) -> Content:
        """Returns the content so far and begins an empty one."""
        taken, self.content = self.content, Content()
        return taken


Pauses = Iterator[None]
"""A look in slices: other work may run after each."""


class View(Protocol):
    """One watcher's knowledge of a server. A look adds the changes since the look before."""

    def forget(self) -> None:
        """Forget everything: the next look adds all that the server knows."""
        ...

    def look(self, draft: Draft) -> Pauses:
        """Add what has changed."""
        ...

    def has(self, what: Any) -> bool:
        """True if the watcher has selected the event."""
        ...


class Source(Protocol):
    """A server that can be watched."""

    @property
    def clock(self) -> Clock: ...

    @property
    def events(self) -> Events: ...

    def identity(self) -> Identity:
        """The process, as of now."""
        ...

    def view(self, selection: Selection) -> View:
        """A view that has seen nothing."""
        ...
