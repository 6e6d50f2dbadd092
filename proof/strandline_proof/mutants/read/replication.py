"""Bugs that a reader of the code chose: leaders, followers, flushes, fetch sessions."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_LEADER: Final = "strandline_broker.core.replication.leader"

READ_IN_REPLICATION: Final = (
    Mutant(
        "no-allowance-for-new-members",
        "I-25",
        "a new leader gives members of the ISR no time before their first fetch, and proposes to"
        " remove them: after each election producers are refused for want of replicas",
        (
            Edit(
                _LEADER,
                "            followers[member.broker_id] ="
                " known._replace(caught_up_ms=self._now_ms)\n",
                "            followers[member.broker_id] = known\n",
            ),
        ),
    ),
    Mutant(
        "proposal-outlives-its-partition-epoch",
        "I-28, P-59",
        "a leader keeps its proposal after another change of the partition, though it can no"
        " longer be committed: the ISR stands still, and the watermark waits for the joining"
        " replica",
        (
            Edit(
                _LEADER,
                "            # no longer be applied (I-27).\n            self._proposal = None\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "eligible-again-and-no-leader-hears",
        "I-88, I-89",
        "leaders learn that a broker came back only if their own partition changes: a replica"
        " that has caught up does not rejoin the ISR",
        (
            Edit(
                "strandline_broker.hosts.replica.eligibility",
                "        self._named = dict.fromkeys((*self._told, *led))\n",
                "        self._named = dict.fromkeys(led)\n",
            ),
        ),
    ),
    Mutant(
        "acknowledged-at-its-last-offset",
        "I-19",
        "acks=all waits for a batch's last offset instead of the next one: a batch of one record"
        " is acknowledged as soon as all records before it are committed",
        (
            Edit(
                "strandline_broker.hosts.replica.appends",
                "        waiter = self._wait(end_offset, outcome, acks, on_done)\n",
                "        waiter = self._wait(end_offset - 1, outcome, acks, on_done)\n",
            ),
        ),
    ),
    Mutant(
        "alarm-of-a-poll-rings-once",
        "P-66, I-88",
        "a poll's alarm does not fire again for the poll after it: a fetch without news is not"
        " answered, and its reader gives the stream up",
        (
            Edit(
                "strandline_broker.hosts.fetching.long_poll",
                "        if self._loop.time() < self._until:\n"
                "            self._set_alarm(self._until)\n"
                "        else:\n"
                "            self.end()\n",
                "        if self._loop.time() >= self._until:\n            self.end()\n",
            ),
        ),
    ),
    Mutant(
        "watermark-before-the-records",
        "I-43",
        "a follower takes the high watermark of an answer before it appends the records: a"
        " follower that is level at rest learns what is committed only with the next write",
        (
            Edit(
                "strandline_broker.core.replication.follower",
                "        effects: list[Effect] = [Append()] if answer.has_records else []\n"
                "        effects.append(AdvanceHighWatermark(Offset(answer.high_watermark)))\n",
                "        effects: list[Effect] = [\n"
                "            AdvanceHighWatermark(Offset(answer.high_watermark))\n"
                "        ]\n"
                "        effects += [Append()] if answer.has_records else []\n",
            ),
        ),
    ),
    Mutant(
        "silent-joiner-and-no-tick",
        "I-29, I-88",
        "no timer runs while the watermark waits for a replica that is about to join: if the"
        " replica falls silent, producers wait until another replica moves",
        (
            Edit(
                _LEADER,
                "            elif self._is_about_to_join(broker_id, follower):\n"
                "                return True\n"
                "        return False\n",
                "        return False\n",
            ),
        ),
    ),
    Mutant(
        "asked-for-during-a-flush",
        "P-66, I-88",
        "a flush requested while another runs wakes no flusher: under flush.policy=always the"
        " last append is neither durable nor acknowledged until the next one",
        (
            Edit(
                "strandline_broker.hosts.disks.flusher",
                "            self._wake.clear()\n"
                "            if self._over is None:\n"
                "                await self._flush_wanted(on_flushed)\n",
                "            if self._over is None:\n"
                "                await self._flush_wanted(on_flushed)\n"
                "            self._wake.clear()\n",
            ),
        ),
    ),
)
