"""Strikes at clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.strikes.scene import Scene

FREEZE_STEP_S: Final = 0.05


class ClockStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "clock-jump": self._jump,
            "clock-rate": self._rate,
            "clock-strobe": self._strobe,
            "clock-freeze": self._freeze,
        }

    def _jump(self, node: str, offset_s: float) -> None:
        self._scene.node(node).set_clock(wall_offset_s=offset_s)

    def _rate(self, node: str, rate: float, for_s: float) -> None:
        self._scene.node(node).set_clock(rate=rate)
        self._scene.later(for_s, lambda: self._scene.node(node).set_clock(rate=1.0))

    def _strobe(self, node: str, offset_s: float, every_s: float, times: int) -> None:
        """Makes the wall clock jump there and back again, quickly."""
        self._scene.repeat(
            times,
            every_s,
            lambda number: self._jump(node, offset_s if number % 2 == 0 else 0.0),
        )

    def _freeze(self, node: str, for_s: float) -> None:
        """Stops the wall clock (its steps are too small to matter), then lets it go on
        from there.
        """
        before_s = self._scene.node(node).wall_offset_s
        self._scene.repeat(
            int(for_s / FREEZE_STEP_S),
            FREEZE_STEP_S,
            lambda number: self._jump(node, before_s - number * FREEZE_STEP_S),
        )
