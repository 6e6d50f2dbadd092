"""A watch on a process's disk operations that finds when it reaches a named place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from strandline_proof.sim.kinds.places import NEAR

if TYPE_CHECKING:
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.kinds.places import Place


class Watch:
    """A function called at each operation of a node's disk, from its creation on."""

    def __init__(self, node: Node, place: Place) -> None:
        self._node = node
        self._place = place
        self._ago = NEAR
        """The number of operations since the one that must be near."""

    def is_here(self, operation: str, path: str) -> bool:
        place = self._place
        is_here = (
            operation == place.operation
            and place.part in path
            and (place.behind is None or self._ago < NEAR)
            and not (place.starts and self._node.is_registered)
        )
        self._ago += 1
        if place.behind is not None and place.behind[0] == operation and place.behind[1] in path:
            self._ago = 0
        return is_here


def as_told(path: str) -> str:
    """The path without the number of a temporary file, which depends on earlier runs of this
    process.
    """
    return re.sub(r"\.\d+\.tmp$", ".tmp", path)
