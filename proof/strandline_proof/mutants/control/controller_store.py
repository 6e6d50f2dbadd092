"""Bugs of the controller's store, of its snapshots and of a broker's recorded state."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_SNAPSHOT: Final = "strandline_broker.core.controller.log.snapshot"
_TAKING: Final = "strandline_broker.hosts.controller.snapshots"
_FILE: Final = "strandline_broker.storage.controller.metadata_snapshot"
_LOG: Final = "strandline_broker.storage.controller.metadata_log"
_STATE: Final = "strandline_broker.storage.directory.strandline_state"
_RESTORATION: Final = "strandline_broker.core.controller.log.restoration"

_STARTS: Final = tuple(
    Fault(at_s, "kill", {"node": "controller", "restart_s": 0.2}) for at_s in (2.5, 4.5, 6.5)
)
"""Starts from the snapshots that there are."""
_BUSY: Final = (
    Fault(0.0, "slow-disk", {"node": "controller", "for_s": 9.0, "factor": 20}),
    *(
        Fault(at_s, "kill", {"node": node, "restart_s": 0.3})
        for at_s, node in (
            (1.5, "broker-1"),
            (2.5, "broker-2"),
            (3.5, "broker-3"),
            (4.5, "broker-1"),
        )
    ),
    *(Fault(at_s, "kill", {"node": "controller", "restart_s": 0.1}) for at_s in (3.0, 4.0, 5.0)),
)
"""Many decisions, some of them between the copy of the state and its writing."""
_DARK: Final = tuple(
    Fault(at_s, "power", {"nodes": ["controller"], "restart_s": 0.2, "survival": 0.0})
    for at_s in (2.0, 3.5, 5.0, 6.5)
)
_KILLS: Final = Needs(kinds=("kill", "pause"), aimed=_STARTS)
_WRITERS: Final = tuple(
    Fault(at_s, "kill", {"node": "writer", "restart_s": 0.1}) for at_s in (3.0, 4.0, 5.0, 6.0, 7.0)
)
_RESTORED: Final = Needs(kinds=("store-restored", "kill"))
_RESTORED_UNDER_WRITERS: Final = Needs(kinds=("store-restored", "kill"), aimed=_WRITERS)
_POWER: Final = Needs(kinds=("power", "crash-point"), aimed=_DARK)

REMEMBERING: Final = (
    Mutant(
        "state-appended-without-fsync",
        "P-20, P-76",
        "a broker confirms the last change of its recorded state before it is durable",
        (Edit(_STATE, "            file.sync()\n", ""),),
    ),
    Mutant(
        "restored-leader-epochs-go-on-from-the-copy",
        "P-76, I-3, I-92",
        "a restored store continues from the leader epochs of the copy, not above those of the"
        " logs",
        (
            Edit(
                _RESTORATION,
                "            leader_epoch=LeaderEpoch(max(found + LEADER_EPOCH_STEP, own)),\n",
                "            leader_epoch=LeaderEpoch(\n"
                "                0 if old is None or found < -1 else old.leader_epoch\n"
                "            ),\n",
            ),
        ),
        _RESTORED,
    ),
    Mutant(
        "old-store-answers-who-knows-more",
        "P-76, I-92",
        "a controller on an old copy of its store serves brokers that have applied later records",
        (
            Edit(
                "strandline_broker.core.controller.brokers.registration",
                "    found = state.epoch_at(metadata_offset)\n",
                "    found = controller_epoch\n",
            ),
        ),
        Needs(moments=("old-store",)),
    ),
    Mutant(
        "restored-offsets-go-on-from-the-copy",
        "P-76, I-92",
        "a restored store writes new records at offsets that brokers have already applied",
        (
            Edit(
                _RESTORATION,
                "    seen = max(known.last_offset, 0, *(b.metadata_offset for b in brokers))\n",
                "    seen = max(known.last_offset, 0)\n",
            ),
            Edit(
                _RESTORATION,
                "    end = MetadataOffset((seen // OFFSET_STEP + 2) * OFFSET_STEP)\n",
                "    end = MetadataOffset(seen + 1)\n",
            ),
        ),
        _RESTORED,
    ),
    Mutant(
        "restored-producer-ids-go-on-from-the-copy",
        "P-76, I-59",
        "a restored store allocates producer ids that are already in the logs",
        (
            Edit(
                _RESTORATION,
                "        next_producer_id=ProducerId(max(max(ids) + PRODUCER_ID_STEP, own)),\n",
                "        next_producer_id=ProducerId(ids[0]),\n",
            ),
        ),
        _RESTORED_UNDER_WRITERS,
    ),
    Mutant(
        "snapshot-without-epoch-starts",
        "P-76, I-92",
        "a snapshot forgets which controller epoch wrote which offset",
        (
            Edit(
                _SNAPSHOT,
                'frozenset({"brokers", "topics", "topic_ids", "index"})',
                'frozenset({"brokers", "topics", "topic_ids", "index", "epoch_starts"})',
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "snapshot-one-record-off",
        "I-30, P-84",
        "a snapshot claims one record more than it covers",
        (
            Edit(
                _SNAPSHOT,
                "        end_offset=state.next_offset,\n",
                "        end_offset=MetadataOffset(state.next_offset + 1),\n",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "snapshot-without-broker-epochs",
        "I-30, I-32",
        "a snapshot leaves registered brokers out",
        (
            Edit(
                _SNAPSHOT,
                "        for broker in self._brokers:\n"
                "            yield _SORTING_ENCODER.encode(_BrokerEntry(broker))\n",
                "",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "snapshot-of-a-state-that-goes-on",
        "P-78, P-84",
        "a snapshot is encoded from the live topics, which later decisions have changed",
        (
            Edit(
                _SNAPSHOT,
                "                tuple(topic.partitions.values()),\n",
                "                topic.partitions.values(),  # type: ignore[arg-type]\n",
            ),
        ),
        Needs(kinds=("kill", "pause"), aimed=_BUSY),
    ),
    Mutant(
        "snapshot-written-in-place",
        "P-23, I-8",
        "a snapshot is written under its name and never made durable",
        (
            Edit(
                _FILE,
                '    return replace_file_with(fs, f"{directory}/{snapshot.name}", batches)\n',
                "    from strandline_broker.storage.files.file import write_whole\n\n"
                '    data = b"".join(batches)\n'
                '    write_whole(fs, f"{directory}/{snapshot.name}", data)\n'
                "    return len(data)\n",
            ),
        ),
        _POWER,
    ),
    Mutant(
        "segments-dropped-before-the-snapshot-is-durable",
        "I-8, P-84",
        "the log drops segments before the snapshot that covers them is written",
        (
            Edit(
                _TAKING,
                "        size = await loop.run_in_executor(\n",
                "        await loop.run_in_executor(\n"
                "            self._pipeline.executor,\n"
                "            partial(self._store.forget_covered, **covers),\n"
                "        )\n"
                "        size = await loop.run_in_executor(\n",
            ),
            Edit(
                _LOG,
                "        start = self.snapshots[0].end_offset if len(self.snapshots) > 1 else "
                "log.log_start_offset\n",
                "        start = self.snapshots[-1].end_offset\n",
            ),
        ),
        _POWER,
    ),
    Mutant(
        "start-from-a-snapshot-alone",
        "I-30, P-29, P-84",
        "a start from a snapshot does not replay the decisions behind it, and takes the snapshot"
        " for the state at the log's end",
        (
            Edit(
                _LOG,
                "        while position < log.log_end_offset:\n",
                "        while position < log.log_end_offset and self.snapshot is None:\n",
            ),
            Edit(
                "strandline_broker.hosts.controller.pipeline",
                "        raise ValueError("
                'f"it ends at {log.end_offset}, its last decision at {state.next_offset}")\n',
                "        state.last_offset = MetadataOffset(log.end_offset - 1)\n",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "both-snapshots-go",
        "I-8, P-84",
        "old snapshots are removed together with the one that the log continues from",
        (
            Edit(
                _LOG,
                "            if old < self.snapshots[-1] and old not in self.snapshots:\n",
                "            if True:\n",
            ),
        ),
        history="tests/unit/broker/storage/controller/test_metadata_snapshot.py"
        "::test_the_segments_below_the_snapshot_before_the_last_go",
    ),
)
