"""One look of a watcher at a view, as one content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.watch.draft import Draft

if TYPE_CHECKING:
    from strandline_broker.hosts.watch.content import Content
    from strandline_broker.hosts.watch.draft import Pauses


def looked(view: Looking) -> Content:
    """Everything that a look adds."""
    draft = Draft()
    for _ in view.look(draft):
        pass
    return draft.take()


if TYPE_CHECKING:
    from typing import Protocol

    class Looking(Protocol):
        def look(self, draft: Draft) -> Pauses: ...
