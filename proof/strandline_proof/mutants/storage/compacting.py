"""Bugs of the log cleaner: the records that it may touch, and those that it must leave."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import CLEANER_MS, Fault

_HOST: Final = "strandline_broker.hosts.upkeep.log_cleaner"
_CLEANER: Final = "strandline_broker.storage.cleaner.cleaner"
_FILTER: Final = "strandline_broker.storage.cleaner.batch_filter"


def _needs(keys: int, delete_retention_ms: int, *more: Fault) -> Needs:
    arguments = {
        "keys": keys,
        "delete_retention_ms": delete_retention_ms,
        "lag_ms": 0,
        "off_s": 0.0,
    }
    return Needs(
        topology={"cleaner_ms": CLEANER_MS, "flush_policy": "always"},
        kinds=("kill", "pause", "move-leader"),
        aimed=(Fault(0.3, "compaction", arguments), *more),
    )


COMPACTING: Final = (
    Mutant(
        "cleaner-beyond-what-is-committed",
        "P-49, I-69",
        "the cleaner treats locally durable records as committed",
        (
            Edit(
                _HOST,
                "committed=min(partition.last_stable_offset, log.durable_offset),",
                "committed=log.durable_offset,",
            ),
        ),
        _needs(
            3,
            60_000,
            *(
                Fault(at_s, "pause", {"node": node, "for_s": 1.3})
                for at_s, pair in ((2.0, (1, 2)), (4.0, (1, 3)), (6.0, (2, 3)))
                for node in (f"broker-{n}" for n in pair)
            ),
        ),
    ),
    Mutant(
        "producers-last-batch-cleaned-away",
        "P-48, I-79",
        "a producer's last batch is cleaned away when later records have its keys",
        (
            Edit(
                _FILTER,
                "            return self._emptied_if_needed(header)\n",
                "            return None\n",
            ),
        ),
        _needs(1, 60_000),
    ),
    Mutant(
        "last-batch-cleaned-away",
        "P-48, I-79",
        "a cleaned segment does not end with the last batch of the segments that it replaces",
        (
            Edit(
                _CLEANER,
                "        if last_dropped is not None:\n"
                "            cleaned.append(*batches.keep_emptied(last_dropped))\n",
                "",
            ),
        ),
        _needs(1, 60_000),
    ),
    Mutant(
        "tombstones-go-at-once",
        "I-70",
        "a tombstone is removed by the second cleaning, whatever delete.retention.ms says",
        (
            Edit(
                _FILTER,
                "            and header.base_timestamp <= self._now_ms\n",
                "",
            ),
        ),
        _needs(60, 60_000),
    ),
    Mutant(
        "tombstone-goes-before-what-it-deletes",
        "I-71",
        "a tombstone is removed on time while some values that it has deleted stay",
        (
            Edit(
                _FILTER,
                "            if offset < bound:\n                if last_offset > offset:\n",
                "            if offset < bound:\n"
                "                stays = record.value is not None and offset % 7 == 0\n"
                "                if last_offset > offset and not stays:\n",
            ),
        ),
        _needs(60, 0),
    ),
    Mutant(
        "leaders-horizon-believed",
        "I-70",
        "a tombstone that was copied with its horizon keeps the leader's horizon",
        (
            Edit(
                _FILTER,
                "was_covered = header.has_delete_horizon and header.next_offset <=",
                "was_covered = header.has_delete_horizon or header.next_offset <=",
            ),
        ),
        _needs(60, 400, Fault(3.0, "isolate", {"node": "heir-0", "for_s": 2.5, "hold": False})),
    ),
)
