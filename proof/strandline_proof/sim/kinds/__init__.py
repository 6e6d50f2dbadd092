"""The vocabulary of faults: each kind by name, with how it draws its arguments.

What a kind does stands under the same name in `strikes/`. A new kind needs an entry in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_proof.sim.kinds import (
    admin,
    clients,
    clocks,
    disks,
    groups,
    moves,
    network,
    processes,
    scripted,
    windows,
)

if TYPE_CHECKING:
    from strandline_proof.sim.kinds.draw import Draw

SINGLE_KINDS: Final[dict[str, Draw]] = {
    **processes.KINDS,
    **network.KINDS,
    **disks.KINDS,
    **clocks.KINDS,
    **admin.KINDS,
    **moves.KINDS,
    **clients.KINDS,
}
"""Which most faults of a seed are of."""
KINDS: Final[dict[str, Draw]] = {**SINGLE_KINDS, **windows.KINDS, **moves.FEW}
"""With those that come with what leads to them or strikes beside them."""
GROUP_KINDS: Final[dict[str, Draw]] = groups.KINDS
"""Which the seeds draw besides that have groups."""
ALL_KINDS: Final = {**KINDS, **GROUP_KINDS, **scripted.KINDS}
"""With those that no seed draws."""
