"""Bugs of storage: what counts as durable, and what a start recovers after a crash."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault

_ATOMIC: Final = "strandline_broker.storage.files.atomic_file"
_EPOCHS: Final = "strandline_broker.storage.log.leader_epochs"
_TICKET: Final = "strandline_broker.storage.log.log"
_CUT: Final = "strandline_broker.storage.log.log"
_RECOVERY: Final = "strandline_broker.storage.log.recovery"
_SHARED: Final = "strandline_broker.storage.directory.shared_checkpoints"
_MARKER: Final = "strandline_broker.storage.directory.clean_shutdown"
_CHECKPOINTS: Final = "strandline_broker.hosts.upkeep.log_checkpoints"
_APP: Final = "strandline_broker.app"
_LOCK: Final = "strandline_broker.storage.directory.lock_holder"

_ALWAYS: Final = {"flush_policy": "always", "segment_bytes": 1500}
_POWER: Final = ("power", "crash-point", "kill")

_BROKERS: Final = ["broker-1", "broker-2", "broker-3"]
_CUT_THEN_DARK: Final = tuple(
    fault
    for start_s in (0.8, 3.6, 6.2)
    for fault in (
        Fault(start_s, "isolate", {"node": "leader-0", "for_s": 1.8, "hold": False}),
        Fault(start_s + 2.1, "power", {"nodes": _BROKERS, "restart_s": 0.2, "survival": 0.5}),
    )
)
"""A leader without followers appends and flushes, is truncated, and loses its power."""
_DEPOSED_AT_ONCE: Final = tuple(
    fault
    for start_s, delay_s in ((0.8, 0.004), (3.4, 0.01), (6.0, 0.02))
    for fault in (
        Fault(
            start_s, "isolate", {"node": "leader-0", "for_s": 1.5, "hold": False}, "leader", delay_s
        ),
        Fault(start_s + 0.1, "kill", {"node": "leader-0", "restart_s": 0.3}),
    )
)
"""A new leader is cut off before any follower has its records."""

_SECONDS: Final = tuple(
    Fault(at_s, "second", {"node": node})
    for at_s, node in ((2.0, "controller"), (4.0, "broker-1"), (6.0, "controller"))
)

STORING: Final = (
    Mutant(
        "second-controller-on-the-store",
        "P-71, P-30, P-76",
        "a directory's lock is checked but not obeyed: two controllers write one store",
        (
            Edit(
                _LOCK,
                "    except BlockingIOError as error:\n"
                "        raise LockHeld(\n"
                '            f"{directory} is locked by another running process'
                '{_holder(fs, directory)}; stop that "\n'
                '            f"one, or give this one its own log.dirs"\n'
                "        ) from error\n",
                "    except BlockingIOError:\n"
                '        lock = fs.open(f"{directory}/{LOCK_NAME}", 2)\n',
            ),
        ),
        Needs(kinds=("kill",), aimed=_SECONDS),
    ),
    Mutant(
        "files-replaced-without-fsync",
        "P-23, I-8",
        "a small file is renamed into place before its bytes are durable",
        (
            Edit(_ATOMIC, "            file.sync()\n        fs.replace(", "        fs.replace("),
            Edit(
                _ATOMIC,
                "            for file in files:\n                file.sync()\n",
                "",
            ),
        ),
        Needs(kinds=_POWER),
    ),
    Mutant(
        "rename-not-durable",
        "P-23, I-8",
        "the directory is not synced after a rename into place",
        (
            Edit(
                _ATOMIC,
                "        raise\n    fs.fsync_dir(os.path.dirname(path))\n",
                "        raise\n",
            ),
            Edit(_ATOMIC, "    fs.fsync_dir(os.path.dirname(contents[0][0]))\n", ""),
        ),
        Needs(topology=_ALWAYS, kinds=_POWER),
    ),
    Mutant(
        "sealed-segments-not-flushed",
        "P-23, I-8",
        "a flush syncs the active segment but not the segments sealed since the last flush",
        (
            Edit(
                _TICKET,
                "    files = [file for s in sealed for file in (s.view().file, *s.unsynced)]\n",
                "    files = [file for s in sealed for file in s.unsynced]\n",
            ),
        ),
        Needs(topology=_ALWAYS, kinds=("slow-disk", "stalling-disk", "slow-disk", "power")),
    ),
    Mutant(
        "new-segment-not-in-its-directory",
        "P-23, I-8",
        "the directory is not synced after a segment is created",
        (
            Edit(
                _TICKET,
                "            if self.sync_directory:\n                self.log.sync_directory()\n",
                "",
            ),
        ),
        Needs(topology=_ALWAYS, kinds=_POWER),
    ),
    Mutant(
        "epoch-not-durable-before-data",
        "P-11, I-47",
        "batches of a new leader epoch are appended before the epoch is in its checkpoint",
        (
            Edit(
                _EPOCHS,
                "            yield from self._file.replacing(content)\n",
                "            if len(epochs) <= len(self._entries[0]):\n"
                "                yield from self._file.replacing(content)\n",
            ),
        ),
        Needs(kinds=_POWER),
    ),
    Mutant(
        "epochs-not-cut-with-the-log",
        "P-11, I-47",
        "a truncation leaves the epochs of the records that it cuts",
        (
            Edit(
                _CUT,
                "    kept.write_indexes()\n    log.leader_epochs.truncate_from_end(end_offset)\n",
                "    kept.write_indexes()\n",
            ),
        ),
        Needs(kinds=("pause",), aimed=_DEPOSED_AT_ONCE),
    ),
    Mutant(
        "checkpoint-above-the-log-end-believed",
        "P-23, I-7",
        "a truncation below the recovery point does not mark the checkpoints as too high",
        (
            Edit(
                _CUT,
                "        log.limits.prepare(offset)\n",
                "        pass\n",
            ),
        ),
        Needs(kinds=("pause",), aimed=_CUT_THEN_DARK),
    ),
    Mutant(
        "recovery-point-ahead-of-the-flush",
        "P-23, I-8",
        "the recovery point is the log's end, flushed or not",
        (
            Edit(
                _CHECKPOINTS,
                "        offsets = {(log.topic, log.partition): log.durable_offset"
                " for log in logs}\n",
                "        offsets = {(log.topic, log.partition): log.log_end_offset"
                " for log in logs}\n",
            ),
            Edit(
                _SHARED,
                "    RECOVERY_POINTS: lambda log: log.durable_offset,\n",
                "    RECOVERY_POINTS: lambda log: log.log_end_offset,\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated"}, kinds=_POWER),
    ),
    Mutant(
        "recovery-looks-at-the-last-segment-only",
        "P-22, I-7",
        "recovery treats every segment but the last as sound, wherever the recovery point is",
        (
            Edit(
                _RECOVERY,
                "        return max(below - 1, 0)\n",
                "        return max(below - 1, len(self._segments) - 1)\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated", "segment_bytes": 1500}, kinds=_POWER),
    ),
    Mutant(
        "unscanned-after-any-end",
        "P-22, I-7, I-52",
        "a log whose last segment opens counts as closed in order",
        (
            Edit(
                _RECOVERY,
                "        recent = self._open_clean_tail() if self._expected.clean else None\n",
                "        recent = self._open_clean_tail()\n",
            ),
            Edit(
                _RECOVERY,
                "        return recent if last.end_offset == expected.recovery_point else None\n",
                "        return recent\n",
            ),
        ),
        Needs(topology={"flush_policy": "replicated", "segment_bytes": 1500}, kinds=_POWER),
    ),
    Mutant(
        "clean-shutdown-marker-kept",
        "P-22, I-52",
        "the marker of a clean shutdown is not removed at the start that reads it",
        (Edit(_MARKER, "    remove_file(fs, path)\n", ""),),
        Needs(kinds=("stop", "kill", "power", "stop", "crash-point")),
    ),
    Mutant(
        "clean-shutdown-marker-before-the-flush",
        "P-22, I-52",
        "a stopping broker writes its clean-shutdown marker before it has flushed its logs",
        (
            Edit(
                _APP,
                "            await self.replicas.close()\n"
                "            if self.is_loaded and epoch != NO_BROKER_EPOCH:\n"
                "                self.directories.write_clean_shutdown(epoch)\n",
                "            if self.is_loaded and epoch != NO_BROKER_EPOCH:\n"
                "                self.directories.write_clean_shutdown(epoch)\n"
                "            await self.replicas.close()\n",
            ),
        ),
        Needs(kinds=("stop", "power", "stop", "crash-point", "slow-disk")),
    ),
)
