"""Bugs of a broker's trust in others, and of its memory of itself: epochs, ids, roles."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_EPOCHS: Final = "strandline_broker.core.replication.fencing"
_FOLLOWER: Final = "strandline_broker.core.replication.follower"
_LEADER: Final = "strandline_broker.core.replication.leader"
_REGISTRATION: Final = "strandline_broker.core.controller.brokers.registration"
_MANAGER: Final = "strandline_broker.hosts.member.replica_manager"
_ENVELOPES: Final = "strandline_broker.hosts.member.envelopes"
_LEADING: Final = "strandline_broker.hosts.replica.leading"
_FILE: Final = "strandline_broker.storage.files.file"
_SEALED: Final = "strandline_broker.storage.files.sealed_file"
_REWRITE: Final = "strandline_broker.storage.log.recovery_rewrite"
_APPENDS: Final = "strandline_broker.hosts.replica.appends"
_PRODUCE: Final = "strandline_broker.hosts.serving.produce_requests"
_IDENTITY: Final = "strandline_broker.storage.directory.partition_identity"
_LOGS: Final = "strandline_broker.hosts.member.replica_logs"

_NET: Final = ("partition", "isolate", "lossy-link", "slow-link", "pause")

_LEVEL_AND_UNHEARD: Final = tuple(
    fault
    for start_s in (1.2, 5.2)
    for fault in (
        Fault(start_s, "pause", {"node": "writer", "for_s": 3.2}),
        Fault(
            start_s + 0.4,
            "partition",
            {"a": "leader-0", "b": "other-0", "for_s": 2.6, "hold": False, "one_way": False},
        ),
    )
)
"""No client writes, and a member that holds everything sends nothing."""

_NAMELESS: Final = tuple(
    Fault(
        start_s,
        "file-flip",
        {"node": node, "file": "identity", "bits": 1, "stops": True, "down_s": 0.3},
    )
    for start_s, node in ((3.0, "broker-1"), (3.0, "broker-2"), (3.0, "broker-3"))
)
"""Every disk changes a bit of a replica directory's identity."""

BELIEVING: Final = (
    Mutant(
        "nameless-replica-made-anew",
        "I-36, I-8",
        "a directory without an identity counts as another topic's: it is set aside with its"
        " records, and an empty log is created",
        (
            Edit(
                _IDENTITY,
                "    except ValueError:\n        return not is_hosted\n",
                "    except ValueError:\n        return True\n",
            ),
            Edit(
                _IDENTITY,
                "        if len(claiming) == 1:\n",
                "        if len(claiming) < 0:\n",
            ),
            Edit(
                _LOGS,
                "        if key in self._directories.hosted and len(fit) == 1:\n",
                "        if len(fit) < 0:\n",
            ),
            Edit(
                _LOGS,
                "        if fit and (key in self._directories.hosted"
                " or (self._counts(state) and not state.is_new)):\n",
                "        await self._dirs.in_registry("
                "partial(self._directories.forget_hosted, *key))\n"
                "        self.refused.pop(key, None)\n"
                "        if not key:\n",
            ),
        ),
        Needs(topology={"partitions": 1}, kinds=("slow-link",), aimed=_NAMELESS),
    ),
    Mutant(
        "seal-not-looked-at",
        "I-8, I-10",
        "a checkpoint is read without a check of its seal, so a changed digit is another offset",
        (
            Edit(
                _SEALED,
                "if named is not None and crc not in named:",
                "if named is not None and not named:",
            ),
        ),
        Needs(kinds=("file-flip",)),
    ),
    Mutant(
        "records-not-looked-into",
        "I-98",
        "a leader does not check the records of a batch with a right CRC against its header",
        (
            Edit(
                _APPENDS,
                "            check_records(partition.name, batch, header, config,"
                " wall_ms(self._clock))\n",
                "            pass\n",
            ),
        ),
        Needs(kinds=("hostile-batch",)),
    ),
    Mutant(
        "what-was-found-ahead-forgotten",
        "I-98",
        "the error that validation ahead of time found in a compressed batch is not reported when"
        " its turn comes",
        (
            Edit(
                _APPENDS,
                "        elif looked.refused is not None:\n            raise looked.refused\n",
                "",
            ),
        ),
        Needs(kinds=("hostile-batch",)),
    ),
    Mutant(
        "fetch-epoch-not-compared",
        "P-3, I-33",
        "a leader answers requests that were made under another leader epoch",
        (
            Edit(
                _EPOCHS,
                "    if requested == UNKNOWN_EPOCH:\n",
                "    if requested == UNKNOWN_EPOCH or current >= 0:\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, moments=("quick-return",)),
    ),
    Mutant(
        "epoch-start-not-recorded",
        "P-11, I-46",
        "a new leader serves before its epoch's start is in its checkpoint",
        (
            Edit(
                _ENVELOPES,
                "                    await partition.in_disk_group("
                "log.assigning_epoch(state.leader_epoch))\n",
                "                    log.assigning_epoch(state.leader_epoch).close()\n",
            ),
        ),
    ),
    Mutant(
        "epoch-of-the-leader-in-a-fetch",
        "P-53, I-39",
        "a follower sends the leader's epoch in a fetch instead of the epoch of its own last"
        " record",
        (
            Edit(
                _FOLLOWER,
                "else LeaderEpoch(latest_epoch)\n",
                "else self.leader_epoch\n",
            ),
        ),
    ),
    Mutant(
        "level-follower-expelled",
        "P-56, I-25",
        "a member of the ISR that holds everything is removed because it is silent",
        (
            Edit(
                _LEADER,
                "        level = follower.log_end_offset == self.log_end_offset\n",
                "        level = False\n",
            ),
        ),
        Needs(topology={"partitions": 1}, kinds=("slow-link",), aimed=_LEVEL_AND_UNHEARD),
    ),
    Mutant(
        "watermark-wakes-nobody",
        "P-66, I-29",
        "a high watermark that has risen does not release the producers that wait for it",
        (
            Edit(
                _LEADING,
                "        self.appends.on_committed(partition.high_watermark)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "another-topic-under-the-same-number",
        "P-19, P-83, I-36",
        "a request for a missing partition is answered by a partition of another topic",
        (
            Edit(
                _MANAGER,
                "        partition = self.partitions.get(key)\n"
                "        if partition is None and key in self.logs.refused:\n",
                "        partition = self.partitions.get(key) or next(\n"
                "            (p for (_, i), p in self.partitions.items() if i == index), None\n"
                "        )\n"
                "        if partition is None and key in self.logs.refused:\n",
            ),
        ),
        Needs(topology={"partitions": 2}, kinds=("topic-recreate", "kill", "topic-recreate")),
    ),
    Mutant(
        "wiped-disk-is-the-same-disk",
        "P-21, I-51",
        "an incarnation on another disk counts as one that has kept its records",
        (
            Edit(
                _REGISTRATION,
                "    if new.directory_id != old.directory_id:\n        return True\n",
                "",
            ),
        ),
        Needs(topology={"flush_policy": "always"}, moments=("wiped-member",)),
    ),
    Mutant(
        "every-registration-is-a-new-incarnation",
        "P-64, I-32",
        "a registration that is repeated because its answer was lost gets a new broker epoch",
        (
            Edit(
                _REGISTRATION,
                "    if old is not None and old.incarnation_id == request.incarnation_id:\n",
                "    if old is not None and old.incarnation_id == '':\n",
            ),
        ),
        Needs(moments=("registered-unheard",)),
    ),
    Mutant(
        "fsync-tried-again",
        "P-24, I-93",
        "a failed fsync is retried, and its success is believed",
        (
            Edit(
                _FILE,
                "            self._fs.fdatasync(self.fd)\n        except OSError as error:\n"
                '            self._fail(error, "making it durable")\n',
                "            self._fs.fdatasync(self.fd)\n        except OSError:\n"
                "            self._fs.fdatasync(self.fd)\n",
            ),
        ),
        Needs(topology={"flush_policy": "always"}, kinds=("fsync-error", "fsync-error", "power")),
    ),
    Mutant(
        "pages-not-written-again",
        "P-24, I-93",
        "a recovery takes the batches that it has read for durable, though the disk may never"
        " have written them",
        (
            Edit(
                _REWRITE,
                "range(_start(segment, recovery_point), end, CHUNK)",
                "range(end, end, CHUNK)",
            ),
        ),
        Needs(topology={"flush_policy": "always"}, kinds=("fsync-error", "fsync-error", "power")),
    ),
    Mutant(
        "appended-called-not-written",
        "P-31, I-21",
        "an append whose leadership ended is answered as not written",
        (
            Edit(
                _PRODUCE,
                "        result.appended = outcome.appended\n",
                "        result.appended = outcome.appended and outcome.error is None\n",
            ),
        ),
        Needs(kinds=_NET),
    ),
    Mutant(
        "asks-in-an-epoch-that-an-answer-told",
        "I-15, I-16, I-24",
        "a leader proposes a join in a partition epoch that only an answer has named: a barred"
        " replica is refused, and the same request adds it late",
        (
            Edit(
                _LEADER,
                "            self._epoch_was_pushed = False\n",
                "",
            ),
        ),
        history="tests/property/test_core_leader_property.py"
        "::test_nobody_joins_by_a_late_call_of_an_epoch_that_the_answer_told_first",
    ),
    Mutant(
        "batch-of-a-wrong-epoch-is-served",
        "I-2, I-37",
        "a batch is served whose leader epoch, which no CRC covers, has a flipped bit: a reader"
        " asks by that epoch where its history ends, and is sent back",
        (
            Edit(
                "strandline_broker.storage.log.reader",
                "        if 0 <= named != epoch:\n",
                "        if 0 <= named != epoch and named > until:\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_log.py"
        "::test_a_batch_is_served_in_the_epoch_that_the_checkpoint_names_alone",
    ),
)
