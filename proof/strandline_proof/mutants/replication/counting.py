"""Bugs in values that an oracle must compute for itself: the minimum, caught-up followers, applied
pushes, and the replicas under a high watermark.
"""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_LEADER: Final = "strandline_broker.core.replication.leader"
_REMOTE: Final = "strandline_broker.core.replication.remote_replica"
_STATE: Final = "strandline_broker.core.controller.log.state"
_PUSH: Final = "strandline_broker.hosts.member.push"
_ENVELOPES: Final = "strandline_broker.hosts.member.envelopes"

COUNTING: Final = (
    Mutant(
        "minimum-one-too-low",
        "I-91",
        "the controller resolves a minimum of in-sync replicas that is one below the configured",
        (
            Edit(
                _STATE,
                "        return partition.least_in_sync(int(text))\n",
                "        return max(1, partition.least_in_sync(int(text)) - 1)\n",
            ),
        ),
    ),
    Mutant(
        "one-below-the-minimum-is-enough",
        "I-20, I-9",
        "a leader takes writes, and commits them, with one replica in sync less than it needs",
        (
            Edit(
                _LEADER,
                "        return len(self.isr) < self._eff_min_insync\n",
                "        return len(self.isr) < self._eff_min_insync - 1\n",
            ),
        ),
    ),
    Mutant(
        "lag-of-a-third",
        "I-25",
        "a follower that was caught up within replica.lag.time.max.ms counts as lagging after a"
        " third of it",
        (
            Edit(
                _REMOTE,
                "now_ms - self.caught_up_ms <= lag_ms_max\n",
                "now_ms - self.caught_up_ms <= lag_ms_max // 3\n",
            ),
        ),
    ),
    Mutant(
        "level-follower-ages",
        "I-25, P-56",
        "a fetch of a follower that holds everything does not renew its caught-up time",
        (
            Edit(
                _REMOTE,
                "        return self._replace(caught_up_ms=max(at_ms, known_ms))\n",
                "        return self._replace(caught_up_ms=known_ms)\n",
            ),
        ),
    ),
    Mutant(
        "applied-before-it-is-carried-out",
        "I-83, I-81",
        "a broker counts a push as applied when it begins to apply it",
        (
            Edit(
                _PUSH,
                "        failed = await self.envelopes.apply(envelope)\n",
                "        metadata.publish(view, store_id=envelope.store_id)\n"
                "        failed = await self.envelopes.apply(envelope)\n",
            ),
        ),
    ),
    Mutant(
        "role-is-left-out",
        "I-81",
        "a replica does not take the role of the third leader epoch, and the push is answered as"
        " applied",
        (
            Edit(
                _ENVELOPES,
                "            elif self._accept(partition, state):\n",
                "            elif self._accept(partition, state) and state.leader_epoch != 2:\n",
            ),
        ),
    ),
)
