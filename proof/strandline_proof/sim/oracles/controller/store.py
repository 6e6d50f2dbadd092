"""The controller's store: the log reaches back to a snapshot that is kept (I-7)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.storage.controller.metadata_log import MetadataLog


class StoreOracle:
    def __init__(self, sometimes: Counter[str]) -> None:
        self._sometimes = sometimes
        self._log: MetadataLog | None = None
        self._snapshots: tuple[Any, ...] = ()
        self._state: ControllerState | None = None

    def on_step(self, log: MetadataLog, state: ControllerState) -> None:
        if log is not self._log:
            self._check_replayed(state)
            self._log, self._snapshots = log, log.snapshots
            if log.snapshot is not None:
                self._sometimes["controller began from a snapshot"] += 1
        if log.snapshots is not self._snapshots:
            self._snapshots = log.snapshots
            self._sometimes["controller took a snapshot"] += 1
        covered = log.snapshots[0].end_offset if log.snapshots else 0
        if log.start_offset > covered:
            raise Violation(
                "I-7",
                f"the controller's log begins at {log.start_offset}, its oldest snapshot covers"
                f" what is below {covered}",
            )

    def _check_replayed(self, state: ControllerState) -> None:
        """A start that finds no more records than the process before it reaches the very same
        state.
        """
        before, self._state = self._state, state
        if before is None or before.last_offset != state.last_offset or before == state:
            return
        differ = [
            f.name for f in fields(state) if getattr(before, f.name) != getattr(state, f.name)
        ]
        raise Violation(
            "P-84", f"the controller's state at offset {state.last_offset} is another one: {differ}"
        )
