"""Strikes at transactional producers, and moves of the leaders that decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.internal_topics import TRANSACTION_STATE
from strandline_proof.sim.strikes.orders import give_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.strikes.scene import Scene

MOVER: Final = "decider-mover"


class TransactionStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "teller-crash": self._crash,
            "teller-pause": self._pause,
            "teller-cut": self._cut,
            "decider-move": self._move,
        }

    def _crash(self, node: str, restart_s: float) -> None:
        struck = self._scene.node(node)
        struck.kill()
        self._scene.later(restart_s, self._scene.start, struck)

    def _pause(self, node: str, for_s: float) -> None:
        struck = self._scene.node(node)
        struck.pause()
        self._scene.later(for_s, struck.resume)

    def _cut(self, a: str, b: str, for_s: float, hold: bool, one_way: bool) -> None:
        network = self._scene.world.network
        network.partition(a, b, hold=hold, one_way=one_way)
        self._scene.later(for_s, network.heal, a, b)

    def _move(self, state_partition: int, to: int) -> bool:
        async def move(admin: Any) -> None:
            (result,) = await admin.move_leaders({(TRANSACTION_STATE, state_partition): to})
            if result.error is None:
                self._scene.oracles.sometimes["decider moved by command"] += 1

        return give_order(self._scene, MOVER, move)
