"""Pitfalls of docs/internals/invariants.md without a mutant, and the checks that replace it."""

from __future__ import annotations

from typing import Final

UNPLANTED: Final[dict[str, str]] = {
    "P-16": "a replica without a checkpoint begins at its log's start, which is always safe"
    " (I-10): no run can tell it from one that is old;"
    " `storage/files/test_checkpoint_limits.py`",
    "P-36": "the controller elects around a broker that cannot apply its election, and the broker"
    " applies the new leader epoch; `hosts/member/test_replica_logs.py`,"
    " `rpc/cluster/test_push_late.py`",
    "P-38": "an append and its bookkeeping are one synchronous step; what a cancelled follower"
    " leaves is planted as append-cut-off-before-its-producers",
    "P-43": "it is deletion-compared-by-epoch; `test_04_unload_overtakes_load`",
    "P-47": "the horizon stands in the batch; `storage/cleaner/test_cleaner.py`",
    "P-52": "`test_an_empty_log_may_begin_inside_a_batch`",
    "P-57": "a fetch counts when it arrives; `core/replication/test_leader_isr.py`",
    "P-60": "one durable store: no controller is behind a broker, as an older store is refused"
    " (P-76)",
    "P-65": "it costs availability for a moment and heals by itself; `test_sim_shutdown.py`",
    "P-67": "`log begun again at its leader's start` must happen sometimes;"
    " `core/replication/test_follower.py`",
    "P-69": "the cleaner never empties the end of a log; property tests of the cleaner",
    "P-70": "as P-69, and readers' own tests",
    "P-81": "as P-65; `test_sim_controller_alone.py`, and the moment controller-alone-comes-back",
    "P-102": "a decision is appended and replayed in one step; I-102 is an oracle",
    "P-103": "`core/groups/test_pending_offsets.py`, `test_22_txn_offset_order`",
    "P-108": "`storage/log/test_aborted.py`, `storage/log/test_aborted_power.py`",
    "P-117": "`core/replication/test_verification.py`, `core/transactions/test_partitions.py`",
    "P-121": "`core/transactions/test_timeouts.py`",
    "P-123": "`core/groups/test_groups_property.py`; I-144 is an oracle",
    "P-127": "`core/replication/test_verification.py`",
    "P-130": "`core/transactions/test_transactions_property.py`",
    "P-136": "`test_much_goes_in_parts`",
    "P-137": "`test_each_partition_has_its_own_error_and_leaves_nothing_pending`",
    "P-140": "`hosts/transactions/test_marker_sender.py`",
    "P-141": "one request of a member at a time, and epochs; I-135 is an oracle",
    "P-148": "wall clocks jump in a sweep, and I-137 and I-179 are oracles",
    "P-149": "`test_a_target_for_another_group_of_the_same_name_and_epoch_is_dropped`",
    "P-154": "`test_what_was_read_already_comes_before_the_timer`",
}
