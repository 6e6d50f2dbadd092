"""The owner of a callback: one incarnation of one simulated node.

The owner travels in a context variable, so that whatever a node's code starts belongs to that node
without knowing it. A dead owner runs nothing more. A paused one gets all of it later. Each has
clocks of its own.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.loop.handle import SimHandle
    from strandline_proof.sim.loop.task import SimTask

EPOCH_S = 1_700_000_000.0
"""The wall clock at the start of every run."""


class Stopped(GeneratorExit):
    """The process that runs this code has ended: no code below may go on.

    The class is no Exception, so that no handler of production code takes it for a failure of its
    own. It is a GeneratorExit, which a generator may raise when it is thrown away with its process,
    as the cleaner's are.
    """


class Owner:
    """One life of a node. `number` is unique in a run and grows with time."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.alive = True
        self.frozen = False
        """True if stopped by a signal; `blocked`: its thread waits for the disk."""
        self.blocked = False
        self.stalled = False
        """True if `blocked` as to its event loop only."""
        self.backlog: list[SimHandle] = []
        self.tasks: list[SimTask] = []
        """All tasks that it has ever begun, in their order."""
        self.busy_s = 0.0
        """The time for which the running step has blocked its event loop; the loop resets it."""
        self.on_step: Callable[[], None] | None = None
        """Called after each step of a life that goes on."""
        self.wall_offset_s = 0.0
        self.rate = 1.0
        """Local seconds in a second."""
        self._base = (0.0, 0.0)
        self.context = contextvars.Context()
        self.context.run(OWNER.set, self)

    def unfinished(self) -> list[SimTask]:
        self.tasks = [task for task in self.tasks if not task.done()]
        return self.tasks

    @property
    def paused(self) -> bool:
        return self.frozen or self.blocked

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"

    def local(self, now_s: float) -> float:
        """This node's monotonic clock at a global time."""
        at, local = self._base
        return local + (now_s - at) * self.rate

    def to_global(self, local_s: float) -> float:
        """The global time at which this node's monotonic clock shows `local_s`, if its
        rate stays.
        """
        at, local = self._base
        return at + (local_s - local) / self.rate

    def wall(self, now_s: float) -> float:
        return EPOCH_S + self.wall_offset_s + self.local(now_s)

    def set_rate(self, now_s: float, rate: float) -> None:
        """Makes the clocks run faster or slower from here on; they do not jump."""
        self._base = (now_s, self.local(now_s))
        self.rate = rate

    def run(self, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls as this owner, now, from outside of any callback of its own."""
        return self.context.copy().run(callback, *args, **options)


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)
"""The present owner; None for the harness itself."""
