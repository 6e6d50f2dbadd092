"""One callback of the simulated event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from strandline_proof.sim.loop.owner import Owner


class SimHandle:
    """A callback that is due, or a timer."""

    __slots__ = ("args", "callback", "cancelled_", "context", "owner", "quiet", "when_")

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context,
        owner: Owner | None,
        when: float = 0.0,
        quiet: bool = False,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.owner = owner
        self.when_ = when
        self.quiet = quiet
        """True if the callback only wakes tasks: its node changes only in the tasks' own steps."""
        self.cancelled_ = False

    def cancel(self) -> None:
        self.cancelled_ = True

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        """The due time, in the clock of the node that set it."""
        return self.when_
