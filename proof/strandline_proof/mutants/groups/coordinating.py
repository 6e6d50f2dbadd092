"""Bugs of a coordinator's shard: its load, its answers, its end."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_SHARD: Final = "strandline_broker.core.coordination.shard"
_HOST: Final = "strandline_broker.hosts.coordination.shard_host"
_GROUP_SHARD: Final = "strandline_broker.hosts.groups.group_shard"
_REGISTRY: Final = "strandline_broker.hosts.coordination.registry"
_HASH: Final = "strandline_proto.java_hash"
_TIMERS: Final = "strandline_broker.hosts.coordination.timers"

COORDINATING: Final = (
    Mutant(
        "waiters-outlive-the-coordinator",
        "P-101, I-105, I-110",
        "a commit's waiter is answered when any later high watermark passes, of whichever"
        " leadership",
        (
            Edit(
                _SHARD,
                "        self.epoch = epoch\n        return self._end()\n",
                "        self.epoch = epoch\n"
                "        self.state = ShardState.INACTIVE\n"
                "        return []\n",
            ),
            Edit(
                _SHARD,
                "        return [self._drop(), self._load(end)]\n\n    def loaded",
                "        return [Drop(()), self._load(end)]\n\n    def loaded",
            ),
        ),
    ),
    Mutant(
        "served-at-the-log-end",
        "P-82, I-101, I-106",
        "a new coordinator serves as soon as it has loaded its log, committed or not",
        (
            Edit(
                _SHARD,
                "self.state is ShardState.WAITING_HW and self.high_watermark >= self._start:",
                "self.state is ShardState.WAITING_HW:",
            ),
        ),
    ),
    Mutant(
        "commit-answered-when-appended",
        "I-104, I-142",
        "a decision is answered when it is in the coordinator's own log",
        (
            Edit(
                _SHARD,
                "        if end <= self.high_watermark:\n            return True\n"
                "        self._waiters.add(end, _Waiter(ticket, None))\n        return False\n",
                "        return True\n",
            ),
        ),
    ),
    Mutant(
        "uncommitted-offsets-told",
        "I-104, I-106",
        "a query of offsets returns written offsets that are not yet committed",
        (
            Edit(
                _SHARD,
                "        required = self.log_end if entity is None else"
                " self._written.get(entity, Offset(0))\n",
                "        required = self.high_watermark\n",
            ),
            Edit(
                _SHARD,
                "        return self._written.get(entity, Offset(0)) <= self.high_watermark\n",
                "        return True\n",
            ),
        ),
    ),
    Mutant(
        "load-keeps-the-old-state",
        "P-109, I-102, I-110",
        "a coordinator that leads again replays its log over its earlier state",
        (
            Edit(
                _GROUP_SHARD,
                "        self.sessions.end_all(error)\n"
                "        self.groups = self.context.new_groups()\n",
                "        self.sessions.end_all(error)\n",
            ),
        ),
    ),
    Mutant(
        "deletion-compared-by-epoch",
        "P-135, I-110, I-111",
        "a shard whose replica is deleted is kept, as a deletion names no later epoch",
        (
            Edit(
                _SHARD,
                "        self.epoch = UNKNOWN_EPOCH\n        return self._end()\n",
                "        return self.resigned(UNKNOWN_EPOCH)\n",
            ),
        ),
        history="tests/golden/test_group_histories_of_shards.py"
        "::test_05_replica_deleted_while_loading",
    ),
    Mutant(
        "appended-before-it-is-replayed",
        "P-150, I-108",
        "a decision is appended before the coordinator has checked that it can be replayed",
        (
            Edit(
                _HOST,
                "        self._replay(decision)\n        try:\n"
                "            check_leader(partition, self.machine.epoch).appends.append(\n",
                "        try:\n"
                "            check_leader(partition, self.machine.epoch).appends.append(\n",
            ),
            Edit(
                _HOST,
                "        end = Offset(partition.log.log_end_offset)\n"
                "        self.machine.appended(application.state.entities(records), end)\n",
                "        self._replay(decision)\n"
                "        end = Offset(partition.log.log_end_offset)\n"
                "        self.machine.appended(application.state.entities(records), end)\n",
            ),
        ),
        history="tests/unit/broker/hosts/coordination/test_shard_host.py"
        "::test_what_cannot_be_replayed_is_not_written_and_ends_the_process",
    ),
    Mutant(
        "failed-append-stays-in-memory",
        "I-102, I-108",
        "a decision that could not be written stays in memory",
        (
            Edit(
                _HOST,
                "            if self.machine.state is ShardState.ACTIVE:"
                "  # and not put out of service with its disk\n"
                "                self._load_again()\n",
                "",
            ),
        ),
        history="tests/golden/test_group_histories_of_shards.py::test_07_disk_full_append",
    ),
    Mutant(
        "group-decision-in-two-batches",
        "I-107",
        "the first record of a decision is a batch of its own",
        (
            Edit(
                _HOST,
                "            check_leader(partition, self.machine.epoch).appends.append(\n"
                "                batch,\n",
                "            leading = check_leader(partition, self.machine.epoch)\n"
                "            if len(records) > 1:\n"
                "                from dataclasses import replace\n"
                "                leading.appends.append(\n"
                "                    self._batch_of(replace(decision, records=records[:1])),\n"
                "                    acks=1,\n"
                "                    on_done=_nobody_waits,\n"
                "                    origin=AppendOrigin.COORDINATOR,\n"
                "                )\n"
                "                batch = self._batch_of(replace(decision, records=records[1:]))\n"
                "            leading.appends.append(\n"
                "                batch,\n",
            ),
        ),
    ),
    Mutant(
        "hash-over-code-points",
        "P-153, I-101",
        "a group whose name has characters beyond 16 bits is mapped to another coordinator",
        (
            Edit(
                _HASH,
                '    units = text.encode("utf-16-be", "surrogatepass")\n'
                "    for at in range(0, len(units), 2):\n"
                "        h = (31 * h + (units[at] << 8) + units[at + 1]) & _MASK\n",
                "    for unit in map(ord, text):\n        h = (31 * h + unit) & _MASK\n",
            ),
        ),
    ),
    Mutant(
        "least-hash-has-an-absolute-value",
        "P-153, I-101",
        "the hash -2^31 maps to 2^31 instead of 0",
        (
            Edit(
                _HASH,
                "    return 0 if h == -_SIGN else abs(h) % partitions\n",
                "    return abs(h) % partitions\n",
            ),
        ),
    ),
    Mutant(
        "no-rebalance-timer-after-a-load",
        "I-137",
        "a new coordinator starts no rebalance timers, so members may revoke as late as they like",
        (
            Edit(
                _GROUP_SHARD,
                "        for timer in self.groups.timers(self.inputs()):\n",
                "        for timer in self.groups.timers(self.inputs()):\n"
                "            if timer.member_epoch >= 0:\n"
                "                continue\n",
            ),
        ),
    ),
    Mutant(
        "own-stall-expires-all",
        "P-146, I-96",
        "a coordinator that has stalled counts its own stall as its members' silence",
        (
            Edit(
                _TIMERS, "            while looks:\n", "            while looks and not late_ms:\n"
            ),
        ),
        history="tests/golden/test_group_histories_of_shards.py::test_38_stall_does_not_expire",
    ),
)
