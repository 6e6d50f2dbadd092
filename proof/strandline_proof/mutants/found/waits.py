"""Bugs of state that is used after a wait as it was before the wait, each under the test that found
it.

A reader of the code found them. The wait is one of a thread, or one turn of the event loop: a
plan's fault falls into it only by chance.
"""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_DAMAGE_WATCH: Final = "strandline_broker.hosts.upkeep.damage_watch"

FOUND_IN_WAITS: Final = (
    Mutant(
        "healed-though-its-gate-was-promised",
        "I-15, I-41, I-88",
        "a free gate counts as one that no other task waits for, and a log is cut before damage"
        " that may be gone",
        (
            Edit(
                _DAMAGE_WATCH,
                "            if not self.may_heal(partition):\n                return\n",
                "",
            ),
        ),
        history="tests/unit/broker/hosts/upkeep/test_damage_watch.py"
        "::test_what_has_waited_for_the_gate_comes_before_a_healing",
    ),
    Mutant(
        "producers-read-again-while-it-appends",
        "I-58",
        "producers' state is read again under a free gate that another task waits for: the"
        " replica leads by then, and appends",
        (
            Edit(
                _DAMAGE_WATCH,
                "            if not self._may_replay(partition):\n"
                "                return  # as in `_heal`\n",
                "",
            ),
        ),
        history="tests/unit/broker/hosts/upkeep/test_damage_watch.py"
        "::test_what_has_waited_for_the_gate_comes_before_producers_are_read_again",
    ),
    Mutant(
        "damage-noted-that-was-not-written",
        "I-7",
        "damage found while other damage is written down counts as written down",
        (
            Edit(
                _DAMAGE_WATCH,
                "        known = self._seen.get(partition, ())\n        if entries:\n",
                "        known = self._seen.get(partition, ())\n"
                "        entries = log.damaged_ranges.entries\n"
                "        if entries:\n",
            ),
        ),
        history="tests/unit/broker/hosts/upkeep/test_damage_watch.py"
        "::test_what_is_found_while_the_rest_is_noted_is_noted_by_the_next_look",
    ),
    Mutant(
        "deletion-answered-before-it-is-durable",
        "I-75",
        "a deletion is answered at once if a later one has raised the log start since, though no"
        " checkpoint holds it yet",
        (
            Edit(
                "strandline_broker.hosts.replica.deletions",
                "            low_watermark = min("
                "leading.machine.low_watermark(), partition.log.state.durable_start)\n",
                "            low_watermark = leading.machine.low_watermark()\n",
            ),
        ),
        history="tests/integration/test_retention.py"
        "::test_a_deletion_answers_no_more_than_what_is_durable",
    ),
    Mutant(
        "opened-while-its-removal-waits",
        "P-19, I-36, I-87",
        "a removal checks for its replica before it waits for the replica's opening, not after",
        (
            Edit(
                "strandline_broker.hosts.member.envelopes",
                "        if key not in self._replicas.partitions:\n"
                "            await self._logs.forget(key, delete=stop.delete)\n"
                "        partition = self._replicas.partitions.get(key)"
                "  # it may have been opened before that\n"
                "        if partition is None:\n"
                "            return\n",
                "        partition = self._replicas.partitions.get(key)\n"
                "        if partition is None:\n"
                "            await self._logs.forget(key, delete=stop.delete)\n"
                "            return\n",
            ),
        ),
        history="tests/unit/broker/hosts/member/test_replica_logs.py"
        "::test_a_log_that_is_opened_before_its_turn_is_given_up_all_the_same",
    ),
    Mutant(
        "opened-while-its-directory-fails",
        "P-24, I-93",
        "a broker checks that a data directory is in service before it opens a log there, not"
        " after",
        (
            Edit(
                "strandline_broker.hosts.member.replica_manager",
                "        if log_dir.failure is not None:  # while the log was opened\n",
                "        if False:\n",
            ),
        ),
        history="tests/integration/test_log_dirs.py"
        "::test_a_log_that_is_opened_while_its_directory_fails_serves_nothing",
    ),
    Mutant(
        "logs-that-come-while-they-are-counted",
        "I-99",
        "a pass over a data directory's logs iterates over the dict to which another thread adds"
        " logs",
        (
            Edit(
                "strandline_broker.storage.directory.directory",
                "        return tuple(self._logs.values())\n",
                "        return self._logs.values()\n",
            ),
        ),
        history="tests/unit/broker/storage/directory/test_directory.py"
        "::test_whoever_goes_through_the_logs_is_not_disturbed_by_one_that_comes",
    ),
    Mutant(
        "opened-again-behind-a-deletion",
        "I-182",
        "a reader reopens a segment that has left the log, and the descriptor stays open",
        (
            Edit(
                "strandline_broker.storage.log.reader",
                "            log.open_segments.forget(set(segments).difference(held))\n",
                "            pass\n",
            ),
        ),
        history="tests/unit/broker/storage/log/test_readers.py"
        "::test_a_reader_leaves_no_segment_open_that_has_left_its_log",
    ),
    Mutant(
        "commit-of-a-stream-that-ended-meanwhile",
        "I-177, I-106",
        "a commit that has waited for the one before it is carried out although its stream has"
        " ended",
        (
            Edit(
                "strandline_broker.rpc.groups.session",
                "        if self._is_mute:\n"
                "            return\n"
                "        self._commit = self._host.submit(command)\n",
                "        self._commit = self._host.submit(command)\n",
            ),
        ),
        history="tests/unit/broker/rpc/groups/test_session_ended.py"
        "::test_a_commit_that_waits_for_its_turn_as_its_stream_is_replaced_is_not_taken",
    ),
    Mutant(
        "cleaned-by-producers-of-before-a-cut",
        "I-79",
        "a log is cleaned after a truncation though its producers have not been read again",
        (
            Edit(
                "strandline_broker.hosts.upkeep.log_cleaner",
                "            and log.producers is not None"
                "  # else the last batch of each is not known (I-79)\n",
                "",
            ),
        ),
        history="tests/unit/broker/hosts/upkeep/test_log_cleaner.py"
        "::test_a_log_is_not_cleaned_while_nobody_knows_who_has_appended_last",
    ),
    Mutant(
        "generation-of-after-the-cut",
        "P-34, I-7",
        "a look for damage reads the log's generation after its segments, not before",
        (
            Edit(
                "strandline_broker.storage.log.segment_check",
                "        self._generation = log.state.generation\n"
                "        segments, recent = log.state.tail\n",
                "        segments, recent = log.state.tail\n"
                "        self._generation = log.state.generation\n",
            ),
        ),
        history="tests/unit/broker/storage/files/test_damage.py"
        "::test_a_segment_that_is_cut_as_the_look_at_it_begins_is_not_damaged",
    ),
    Mutant(
        "record-holds-up-the-next-push",
        "I-88, I-89",
        "an applied push waits for its record however long the disk hangs, and so does the push"
        " behind it",
        (
            Edit(
                "strandline_broker.hosts.member.push",
                "            await self._remember(envelope)\n",
                "            await self._remember(envelope, limited=len(failed) > 0)\n",
            ),
            Edit(
                "strandline_broker.hosts.member.push",
                "    async def _remember(self, envelope: Envelope) -> None:\n",
                "    async def _remember(self, envelope: Envelope, *, limited: bool) -> None:\n",
            ),
            Edit(
                "strandline_broker.hosts.member.push",
                "            self.envelopes.late.limit_s(),\n",
                "            self.envelopes.late.limit_s() if limited else None,\n",
            ),
        ),
        history="tests/unit/broker/rpc/cluster/test_push_late.py"
        "::test_a_push_that_no_disk_records_does_not_keep_leaders_from_the_next_one",
    ),
    Mutant(
        "directory-let-go-while-a-push-is-recorded",
        "P-71, P-20",
        "a broker that ends releases its directories while a push is still to be recorded",
        (
            Edit(
                "strandline_broker.hosts.member.replica_manager",
                "        await self.dirs.recorded()"
                "  # a push is answered before it is, where a disk hangs\n",
                "",
            ),
        ),
        history="tests/unit/broker/rpc/cluster/test_push_late.py"
        "::test_a_directory_is_not_let_go_while_a_push_is_recorded_in_it",
    ),
    Mutant(
        "directory-let-go-while-a-log-is-opened",
        "P-71, I-7",
        "a broker that ends while it starts leaves threads behind, which recover its logs",
        (
            Edit(
                "strandline_broker.hosts.disks.log_loading",
                "            await asyncio.shield(job)\n",
                "            await job\n",
            ),
        ),
        history="tests/unit/broker/hosts/disks/test_log_loading.py"
        "::test_a_load_that_is_given_up_ends_with_the_log_at_hand",
    ),
    Mutant(
        "log-start-taken-back",
        "I-74, I-75",
        "a write of all log starts overwrites a later one that has overtaken it",
        (
            Edit(
                "strandline_broker.storage.directory.shared_checkpoints",
                "            if name == LOG_STARTS:\n"
                "                offset = max(offset, merged.get(key, 0))\n",
                "",
            ),
        ),
        history="tests/unit/broker/hosts/upkeep/test_log_checkpoints.py"
        "::test_a_log_start_that_was_told_does_not_fall_in_its_file",
    ),
    Mutant(
        "limit-of-a-creation-forgotten",
        "I-75, I-7",
        "a log does not know the checkpoint limit that a broken-off creation left in its"
        " directory, and every later start applies it again",
        (
            Edit(
                "strandline_broker.storage.directory.directory",
                "CheckpointLimits.load(self._fs, path, self.findings.append, self._limits_from)",
                "CheckpointLimits(self._fs, path, self._limits_from)",
            ),
        ),
        history="tests/unit/broker/storage/files/test_checkpoint_limits.py"
        "::test_a_limit_of_a_creation_that_broke_off_counts_no_longer_than_it_has_to",
    ),
    Mutant(
        "limit-of-a-cut-that-did-not-begin",
        "I-7, I-75",
        "a truncation refused because its directory cannot be synced leaves a checkpoint limit"
        " behind, and the next start applies it",
        (
            Edit(
                "strandline_broker.storage.files.checkpoint_limits",
                "            with contextlib.suppress(OSError):\n"
                '                self._fs.unlink(f"{self.directory}/{limit.name}")\n'
                "            raise\n",
                "            raise\n",
            ),
        ),
        history="tests/unit/broker/storage/files/test_checkpoint_limits.py"
        "::test_a_limit_of_a_cut_that_did_not_begin_does_not_count_at_the_next_start",
    ),
    Mutant(
        "epoch-file-may-be-new",
        "I-47, I-7",
        "an epoch checkpoint counts as the old one when its directory could not be synced, and"
        " batches follow that contradict it",
        (
            Edit(
                "strandline_broker.storage.log.leader_epochs",
                "            self.unsettled |= epochs[-1:] != self._entries[0][-1:]\n",
                "",
            ),
        ),
        history="tests/unit/broker/storage/test_faults.py"
        "::test_an_epoch_that_the_file_may_say_all_the_same_is_gone_before_other_batches",
    ),
    Mutant(
        "snapshot-of-a-killed-process-not-synced",
        "I-60, I-58, P-23",
        "a start makes a killed process's batches durable without its producer snapshot, and the"
        " recovery point passes the snapshot",
        (
            Edit(
                "strandline_broker.storage.log.recovery",
                "        if to_sync or last.size == 0:\n"
                "            self._sync_snapshots(touched)\n",
                "",
            ),
        ),
        history="tests/unit/broker/storage/log/test_producer_snapshot.py"
        "::test_so_is_one_that_a_process_took_which_was_killed_before_it_was_flushed",
    ),
    Mutant(
        "blamed-for-a-directory-beside-it",
        "P-51, P-19",
        "a replica's directory goes out of service because another directory cannot drop the"
        " replica",
        (
            Edit(
                "strandline_broker.hosts.member.replica_logs",
                "            self._dirs.suffers([*behind, log_dir][0], error)\n"
                '            self._log.error("a replica could not be removed"',
                "            self._dirs.suffers(log_dir, error)\n"
                '            self._log.error("a replica could not be removed"',
            ),
        ),
        history="tests/unit/broker/hosts/member/test_replica_logs.py"
        "::test_a_directory_is_not_blamed_for_one_beside_it_that_forgets_no_replica",
    ),
    Mutant(
        "renamed-before-all-have-forgotten-it",
        "P-51, P-19",
        "a replica's directory is renamed before another directory has dropped the replica: the"
        " retry finds nothing to rename, and the name stays blocked",
        (
            Edit(
                "strandline_broker.storage.directory.broker_directories",
                "        self.forget_hosted(log.topic_id, log.partition)\n"
                "        directory.delete_log(log)\n",
                "        directory.delete_log(log)\n"
                "        self.forget_hosted(log.topic_id, log.partition)\n",
            ),
        ),
        history="tests/unit/broker/hosts/member/test_replica_logs.py"
        "::test_a_directory_is_not_blamed_for_one_beside_it_that_forgets_no_replica",
    ),
    Mutant(
        "renamed-before-and-not-found",
        "P-51, P-19",
        "a replica's directory is renamed but the rename cannot be made durable: the retry finds"
        " nothing to rename, and the name stays blocked",
        (
            Edit(
                "strandline_broker.storage.directory.directory",
                "        with contextlib.suppress(FileNotFoundError):  # it was removed before",
                "        with contextlib.suppress():  # it was removed before",
            ),
        ),
        history="tests/unit/broker/storage/directory/test_directory.py"
        "::test_a_log_whose_new_name_could_not_be_made_durable_is_given_up_when_it_can",
    ),
    Mutant(
        "missing-replica-not-forgotten-ends-the-broker",
        "P-20, I-87",
        "a broker ends if one of its directories cannot drop a missing replica",
        (
            Edit(
                "strandline_broker.hosts.member.replica_logs",
                "                    await self._dirs.forget_hosted(*key)\n"
                "                except OSError as error:  # it is missing",
                "                    forget = partial(self._directories.forget_hosted, *key)\n"
                "                    await self._dirs.in_registry(forget)\n"
                "                except ZeroDivisionError as error:  # it is missing",
            ),
        ),
        history="tests/unit/broker/hosts/member/test_replica_logs.py"
        "::test_a_missing_replica_that_a_directory_does_not_forget_ends_no_broker",
    ),
)
