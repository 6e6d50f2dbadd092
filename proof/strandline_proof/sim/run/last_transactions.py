"""The end of a run's transactions: clients go on after healing, then all is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.transactions.judge import Judge
from strandline_proof.sim.topology.transactions import LEDGER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.watch import Oracles


class LastTransactions:
    def __init__(
        self,
        world: World,
        oracles: Oracles,
        until: Callable[[Callable[[], str], str], Awaitable[None]],
        stop: Callable[..., Awaitable[None]],
    ) -> None:
        self._world = world
        self._oracle = oracles.transactions
        self._judge = Judge(world, oracles.transactions)
        self._until = until
        self._stop = stop

    async def end(self) -> None:
        transactions = self._world.topology.transactions
        assert transactions is not None
        healed_s = self._world.loop.now

        def idle() -> str:
            commits = self._world.ledger.commits
            idle = [n for n in transactions.teller_names if commits.get(n, 0.0) < healed_s]
            return f"{', '.join(idle)} commits nothing" if idle else ""

        await self._wait(idle, "a producer does not go on")
        await self._stop(*transactions.teller_names)
        if transactions.copiers > 0:
            await self._wait(self._judge.uncopied, "a loop does not go on")
            await self._stop(*transactions.copier_names)
        await self._wait(self._oracle.unsettled, "a transaction is not over")
        self._world.ledger.finish = True
        await self._wait(self._unread, "a reader is not at the end")
        await self._stop(LEDGER)

    async def _wait(self, problem: Callable[[], str], what: str) -> None:
        await self._until(lambda: problem() if self._oracle.is_judged() else "", what)

    def _unread(self) -> str:
        lives = self._world.ledger.lives
        whole = {life.is_committed for life in lives if life.is_whole}
        return "" if len(whole) == 2 else "a reader of transactions is not there"

    def check(self) -> None:
        if self._world.topology.transactions is not None:
            self._judge.check()
