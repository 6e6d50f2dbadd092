"""The vocabulary of faults: each kind by name, with the function that draws its arguments.

`strikes/` has a kind's effect under the same name. A new kind needs an entry in both.
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
    transactions,
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
"""Kinds of which most faults of a seed are drawn."""
KINDS: Final[dict[str, Draw]] = {**SINGLE_KINDS, **windows.KINDS, **moves.FEW}
"""Single kinds, and kinds that come with what leads to them or strikes beside them."""
GROUP_KINDS: Final[dict[str, Draw]] = groups.KINDS
"""Kinds that are drawn besides, in seeds with groups."""
TRANSACTION_KINDS: Final[dict[str, Draw]] = transactions.KINDS
"""Kinds that are drawn besides, in seeds with transactions."""
ALL_KINDS: Final = {**KINDS, **GROUP_KINDS, **TRANSACTION_KINDS, **scripted.KINDS}
"""All kinds, with those that no seed draws."""
