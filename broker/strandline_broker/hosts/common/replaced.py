"""The end of a broker whose id another process uses (P-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from strandline_runtime.runtime import Runtime


def end_replaced(runtime: Runtime, node_id: int, why: str) -> NoReturn:
    """End the process. It never registers again, or the two would replace each other for ever."""
    runtime.exit(
        f"broker {node_id} has been replaced by another process with the same id; stop that"
        f" one, or give it a node.id of its own: {why}"
    )
