"""Full garbage collections that look only at what is new.

A full collection stops every thread while it visits all objects of the process: hundreds of
milliseconds in a broker of a thousand partitions, several times a minute while it has requests.
What survives one is therefore frozen (`gc.freeze`), and later ones do not visit it. Reference
counts free a frozen object like any other. Only a frozen cycle stays. So all objects are visited
again when a million are frozen, and then when twice as many are as after the last such visit.
"""

import gc
from collections.abc import Mapping
from typing import Any, Final

_FULL: Final = 2
"""The generation of a full collection."""
FROZEN_MIN: Final = 1_000_000
"""Number of frozen objects up to which none is visited again."""
COUNTED_EVERY: Final = 16
"""Full collections from one count of the frozen objects to the next: the count visits them all."""


class _Survivors:
    def __init__(self, frozen_min: int, counted_every: int) -> None:
        self._frozen_min, self._counted_every = frozen_min, counted_every
        self._visit_all_above = frozen_min
        self._visits_all = False
        self._collections = 0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._collections += 1
            self._visits_all = (
                self._collections % self._counted_every == 0
                and gc.get_freeze_count() > self._visit_all_above
            )
            if self._visits_all:
                gc.unfreeze()
            return
        gc.freeze()
        if self._visits_all:
            self._visit_all_above = max(self._frozen_min, 2 * gc.get_freeze_count())


def freeze_survivors(*, frozen_min: int = FROZEN_MIN, counted_every: int = COUNTED_EVERY) -> None:
    """Freezes what is there now, and from now on what survives a full collection.

    For a process that lives long. What a frozen cycle holds is held until the number of frozen
    objects has doubled; up to `frozen_min` of them it is held for good.
    """
    gc.freeze()
    gc.callbacks.append(_Survivors(frozen_min, counted_every))
