"""Bugs of the clients' retries, sequences and positions."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

_QUEUE: Final = "strandline._core.partition_queue"
_POSITION: Final = "strandline._core.position"
_VIEW: Final = "strandline._core.cluster_view"

_NET: Final = ("partition", "isolate", "lossy-link", "slow-link", "pause", "kill")

ASKING: Final = (
    Mutant(
        "new-numbers-before-all-is-known",
        "P-42, I-59",
        "a producer goes on under a new epoch with batches that may be in the log under the old"
        " one",
        (
            Edit(
                _QUEUE,
                "        if any(b.may_be_written for b in self.in_flight):\n"
                "            self._renew = True  # these are resolved first, under the numbers they"
                " have\n            return\n",
                "",
            ),
        ),
        Needs(kinds=_NET),
    ),
    Mutant(
        "late-answer-moves-the-position",
        "P-54, I-42",
        "a consumer applies an answer to a fetch of another offset than its position",
        (
            Edit(
                _POSITION,
                "        return generation == self.generation and fetch_offset =="
                " self.fetch_offset\n",
                "        return generation == self.generation\n",
            ),
        ),
        Needs(topology={"partitions": 2}, moments=("late-answers",)),
    ),
    Mutant(
        "client-goes-back-to-an-older-leader",
        "P-72, P-82",
        "a client takes any broker's metadata for the newest, and reads on from an older leader"
        " without validating its position there",
        (
            Edit(
                _VIEW,
                "        if epoch < view.leader_epoch:\n            return False\n"
                "        if epoch == view.leader_epoch and metadata_offset",
                "        if epoch == view.leader_epoch and metadata_offset",
            ),
            Edit(
                _POSITION,
                "        if self.fetch_epoch >= 0:\n            self.phase = Phase.VALIDATING\n",
                "        if self.fetch_epoch < -1:\n            self.phase = Phase.VALIDATING\n",
            ),
        ),
        Needs(topology={"partitions": 2}, moments=("deposed-unheard",)),
    ),
)
