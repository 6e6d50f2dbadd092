"""Bugs that the client library once had, under the plans that have found them."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

_CALLS: Final = "strandline/_group_calls.py"
_COMMITS: Final = "strandline/_commits.py"
_FETCHER: Final = "strandline/_fetcher.py"
_STATE: Final = "strandline/_core/commit_state.py"

FOUND_IN_CLIENTS: Final = (
    Mutant(
        "commit-without-an-epoch",
        "P-82, I-106",
        "what an application commits goes without the leader epoch of the record before it",
        (
            Edit(
                _CALLS,
                "            epoch = position.epoch_before(found.offset)\n",
                "            epoch = -1\n",
            ),
        ),
        Needs(corpus="a-commit-behind-a-deposed-leader"),
    ),
    Mutant(
        "commit-outlives-its-ownership",
        "I-106",
        "a commit is tried again under a later ownership of the same partition",
        (
            Edit(
                _STATE,
                "        for commit in self._unsettled:\n"
                '            commit.refuse(gone, GONE, "")\n',
                "",
            ),
            Edit(
                _COMMITS,
                "            own = reconciling.owned - reconciling.lost\n",
                "            own = reconciling.owned\n",
            ),
        ),
        Needs(corpus="a-commit-of-an-earlier-ownership"),
    ),
    Mutant(
        "retry-outlives-its-consumer",
        "I-182",
        "a consumer that has closed keeps a timer for a fetch that had failed",
        (
            Edit(
                _FETCHER,
                "            for retry in self._retries.values():\n"
                "                retry.cancel()\n",
                "            self._retries = {}\n",
            ),
        ),
        Needs(corpus="a-retry-that-outlives-its-consumer"),
    ),
    Mutant(
        "late-answer-voids-what-came-since",
        "P-82",
        "an answer about where a position was before a seek drops what was read ahead since",
        (
            Edit(
                _FETCHER,
                "                end_offset=end.end_offset,\n            ):\n",
                "                end_offset=end.end_offset,\n"
                "            ) or position.generation != generations[key]:\n",
            ),
        ),
        Needs(corpus="a-late-answer-about-where-a-reader-was"),
    ),
    Mutant(
        "heartbeat-while-joining",
        "P-124, I-88",
        "a heartbeat that comes due while the answer to a join is late joins too, without what only"
        " the first one says",
        (
            Edit(
                "strandline/_core/membership.py",
                "        if self.epoch == JOIN_EPOCH and not self._first:\n",
                "        if self.epoch == JOIN_EPOCH and not self.wants_stream:\n",
            ),
        ),
        history="tests/unit/client/_core/test_membership.py"
        "::test_who_joins_says_so_once_and_waits_for_the_answer",
    ),
)
