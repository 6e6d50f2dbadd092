"""Strikes at disks that leave their content as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.disk.disk import CAPACITY
from strandline_proof.sim.disk.parts import DiskFaults

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.strikes.scene import Scene


class DiskStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._active: dict[tuple[str, str], list[float]] = {}
        """Values that each fault of one kind has set at a node, oldest first."""
        self.strikes: dict[str, Callable[..., object]] = {
            "slow-disk": self._slow_disk,
            "stalling-disk": self._stalling_disk,
            "fsync-error": self._rate_of("fsync_error"),
            "write-error": self._rate_of("write_error"),
            "short-write": self._rate_of("short_write"),
            "read-error": self._rate_of("read_error"),
            "misread": self._rate_of("misread"),
            "disk-full": self._disk_full,
        }

    def _set(self, node: str, for_s: float, **settings: float) -> None:
        disk = self._scene.node(node).disk
        for name, value in settings.items():
            self._hold(node, disk.faults, name, value, getattr(DiskFaults(), name), for_s)

    def _hold(
        self, node: str, owner: object, name: str, value: float, usual: float, for_s: float
    ) -> None:
        """Holds a value. Of overlapping faults the newest counts, and the last one's end ends them
        all. A fault that a start or healing has ended stays ended.
        """
        active = self._active.setdefault((node, name), [])
        active.append(value)
        setattr(owner, name, value)

        def end() -> None:
            active.remove(value)
            if getattr(owner, name) != usual:
                setattr(owner, name, active[-1] if active else usual)

        self._scene.later(for_s, end)

    def _slow_disk(self, node: str, for_s: float, factor: float) -> None:
        self._set(node, for_s, slow=factor)

    def _stalling_disk(self, node: str, for_s: float, probability: float, stall_s: float) -> None:
        self._set(node, for_s, stall=probability, stall_s=stall_s)

    def _rate_of(self, name: str) -> Callable[..., None]:
        def strike(node: str, for_s: float, rate: float) -> None:
            self._set(node, for_s, **{name: rate})

        return strike

    def _disk_full(self, node: str, for_s: float, room: int) -> None:
        disk = self._scene.node(node).disk
        self._hold(node, disk, "capacity", disk.used + room, CAPACITY, for_s)
