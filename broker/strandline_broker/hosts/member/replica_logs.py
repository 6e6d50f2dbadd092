"""The logs of this broker: opened at the start, made for new replicas, removed with old ones.

A replica that the broker hosted before and that is missing is not recreated while its records may
count. It is refused, and reported to the controller as missing from the first heartbeat on (P-20).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.disks.blocking_work import to_the_end
from strandline_broker.hosts.disks.log_loading import LogLoader
from strandline_broker.storage.log.log import Log
from strandline_broker.storage.log.new_log import NewLog
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import NO_LEADER, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.disks.disk_lanes import DiskLane
    from strandline_broker.hosts.disks.log_dirs import LogDir, LogDirs
    from strandline_broker.hosts.disks.log_loading import Loaded
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_broker.storage.directory.partition_dirs import PartitionDir, UnknownDir
    from strandline_broker.storage.log.log import LogConfig
    from strandline_runtime.runtime import Runtime

Key = tuple[bytes, int]

LOGS_A_JOB: Final = 32
"""Logs made in one job; then other work that waits for the thread has its turn."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a replica has no open log: it serves nothing."""

    why: str
    condition: ReplicaCondition = ReplicaCondition.OUT_OF_SERVICE


class ReplicaLogs:
    """Owned by the replica manager."""

    def __init__(
        self, runtime: Runtime, config: DynamicConfig, dirs: LogDirs, controller: ToController
    ) -> None:
        self._log = runtime.log
        self._new_loader = partial(LogLoader, runtime, config)
        self._me = config.current.node_id
        self._dirs = dirs
        self._directories = dirs.directories
        self._controller = controller
        self.refused: dict[Key, Refusal] = {}
        """Replicas whose log cannot be opened or made."""
        self.strays: tuple[str, ...] = ()
        """Directories that were set aside and are not removed yet (I-87)."""
        self._unopened: dict[Key, Loaded] = {}
        self._opening = asyncio.Lock()
        self._not_given_up: dict[str, Callable[[], Awaitable[None]]] = {}
        """The retry for each log whose removal failed, by its path."""
        self._to_purge: set[LogDir] = set()
        """Directories with a purge that has not started yet."""

    async def load(self) -> list[Loaded]:
        """Open every log of the data directories; one that cannot be opened is refused (I-7)."""
        online = self._dirs.online()
        for log_dir in online:
            self._purge(log_dir)  # what a crash left of a deletion
        await self.look_for_strays()
        loaded = await self._new_loader().load([each.directory for each in online])
        for each in loaded:
            if each.log is None:
                self._keep_out(each)
        self._refuse_missing({(each.found.topic_id, each.found.partition) for each in loaded})
        return [each for each in loaded if each.log is not None]

    def _refuse_missing(self, found: set[Key]) -> None:
        """Refuse the replicas that were here before and are missing."""
        for key in self._directories.hosted - found:
            self._miss(key, f"partition {key[1]} of topic id {topic_id_text(key[0])}")
            self._log.error("replica missing", reason=self.refused[key].why)

    def _miss(self, key: Key, name: str) -> None:
        """Refuse a missing replica. While a directory is out of service the replica may lie there,
        and is not called missing.
        """
        me, failed = self._me, ", ".join(self._directories.failed)
        nameless = [u.path for _, u in self._directories.unknown() if u.partition == key[1]]
        if self._is_set_aside(key):
            return
        if nameless:
            self.refused[key] = Refusal(
                f"{name} is not here, unless it is in {', '.join(nameless)}, which does not say "
                f"whose it is; the controller's next word tells"
            )
        elif failed:
            self.refused[key] = Refusal(
                f"{name} is not here, but may be in {failed}, out of service: repair it, or take "
                f"it out of log.dirs, and restart broker {me}"
            )
        else:
            self.refused[key] = Refusal(
                f"broker {me} has held {name} before, and its directory is gone: its records may "
                f"exist nowhere else, so it does not start over empty while it is in sync or "
                f"eligible. Put the directory back; once another replica leads it is copied",
                ReplicaCondition.MISSING,
            )

    def _keep_out(self, each: Loaded) -> None:
        key = (each.found.topic_id, each.found.partition)
        self.refused[key] = Refusal(each.refusal)
        self._unopened[key] = each

    async def look_for_strays(self) -> None:
        found: list[str] = []
        for each in self._dirs.online():
            try:
                found += await to_the_end(each.cold, each.directory.strays)
            except OSError as error:
                self._log.warning("strays not listed", why=str(error))
        self.strays = tuple(found)

    def waits_for_room(self, key: Key) -> bool:
        """True if a full disk is the only reason why this replica is refused."""
        return key in self._unopened and self._unopened[key].lacked_space

    async def open_late(self, adopt: Callable[[Loaded], None]) -> bool:
        """Open again the logs that a full disk kept closed; returns True if any of them is open."""
        done = False
        for key in filter(self.waits_for_room, list(self._unopened)):
            async with self._opening:
                done |= await self._open_again(key, adopt)
        return done

    async def _open_again(self, key: Key, adopt: Callable[[Loaded], None]) -> bool:
        refused = self._unopened.get(key)
        online = [each.directory for each in self._dirs.online()]
        if refused is None or refused.directory not in online:
            return False
        found = await self._new_loader().load_one(refused.directory, refused.found)
        if found.log is None:
            self._keep_out(found)
            return False
        del self.refused[key], self._unopened[key]
        adopt(found)
        return True

    async def prepare(self, state: PartitionState, adopt: Callable[[Loaded], None]) -> None:
        """Check and clear whatever prevents the creation of a replica that is not open. Raises
        KafkaStorageError if that fails.
        """
        await self._make_way(state)
        if not await self._recognize(state, adopt):
            await self._recreate_if_gone(state)

    async def _recognize(self, state: PartitionState, adopt: Callable[[Loaded], None]) -> bool:
        """Directories of its name that do not say whose they are: the only one that can be this
        replica is it; others are set aside, and then it is refused if it counts (I-36).
        """
        key, name = (state.topic_id, state.partition), (state.topic, state.partition)
        unknown = [(d, u) for d, u in self._directories.unknown() if (u.topic, u.partition) == name]
        fit = [(d, u) for d, u in unknown if d.partition_dirs.could_be(u, state.topic_id)]
        if not unknown or (fit and self._directories.failed):
            return False  # a directory out of service may hold it
        if key in self._directories.hosted and len(fit) == 1:
            await self._identify(*fit[0], state, adopt)
            return True
        for directory, found in unknown:
            await self._dirs.in_registry(partial(directory.set_aside, found))
            self._log.error("nameless replica set aside", was=found.path)
        await self.look_for_strays()
        if fit and (key in self._directories.hosted or (self._counts(state) and not state.is_new)):
            # Recorded, so that the next start does not take it for a replica that never was here.
            await self._dirs.in_registry(partial(self._directories.keep_hosted, {key}))
            self.refused[key] = Refusal(
                f"{state.where} is damaged: {', '.join(u.path for _, u in fit)} did not say whose "
                f"it is and was set aside; `strandline strays` lists it, `strandline log dump` "
                f"reads it; once another replica leads it is copied",
                ReplicaCondition.DAMAGED_IDENTITY,
            )
            self._controller.report_offline()
        return False

    async def _identify(
        self,
        directory: DataDirectory,
        unknown: UnknownDir,
        state: PartitionState,
        adopt: Callable[[Loaded], None],
    ) -> None:
        identify = partial(directory.partition_dirs.identify, unknown, state.topic_id)
        found = await self._dirs.in_registry(identify)
        self._log.warning("nameless replica recognized", path=found.path)
        each = await self._new_loader().load_one(directory, found)
        if each.log is None:
            self._keep_out(each)
            return
        self.refused.pop((state.topic_id, state.partition), None)
        adopt(each)
        self._controller.report_offline()

    def _is_set_aside(self, key: Key) -> bool:
        refused = self.refused.get(key)
        return refused is not None and refused.condition is ReplicaCondition.DAMAGED_IDENTITY

    def _counts(self, state: PartitionState) -> bool:
        """True if the replica's records count, or no leader exists from which to copy them."""
        me = self._me
        counts = me in (*(m.broker_id for m in state.isr), *state.elr)
        return counts or state.leader == NO_LEADER

    async def _recreate_if_gone(self, state: PartitionState) -> None:
        """Allow a replica whose directory is gone to start empty if it is in no ISR and no ELR: its
        records then count for nothing until it has copied all that its leader holds.

        A proposal to add it cannot be under way: this incarnation has never fetched it.
        """
        key = (state.topic_id, state.partition)
        if key not in self._directories.hosted or key in self._unopened:
            return
        if self._counts(state) or self._directories.failed:
            self._miss(key, state.where)
            return
        self._log.warning("a replica is gone here, and is created again", partition=state.where)
        await self._dirs.forget_hosted(*key)
        if self.refused.pop(key, None) is not None:
            self._controller.report_offline()

    async def create(
        self, wanted: Sequence[tuple[PartitionState, LogConfig]], on_made: Callable[[int], None]
    ) -> list[Log | OSError | KafkaStorageError]:
        """Returns a log for each replica, in the directories with the fewest, or the reason for
        none. Their files are made in a few jobs. One write records them as hosted before any of
        them counts (P-20). `on_made` gets the number of logs after each job.
        """
        results: dict[int, Log | OSError | KafkaStorageError] = {}
        jobs: dict[tuple[LogDir, DiskLane], list[tuple[int, NewLog]]] = {}
        log_dirs = self._dirs.for_new_logs(len(wanted))
        for number, ((state, config), log_dir) in enumerate(zip(wanted, log_dirs, strict=True)):
            if (why := self._may_be_elsewhere(state)) is not None:
                results[number] = KafkaStorageError(why)
                continue
            leads = state.leader == self._me
            epoch = state.leader_epoch if leads else None
            new = NewLog(state.topic, state.topic_id, state.partition, config, epoch)
            lane = log_dir.lanes.of(state.topic_id, state.partition)
            jobs.setdefault((log_dir, lane), []).append((number, new))
        async with asyncio.TaskGroup() as group:
            for (log_dir, lane), numbered in jobs.items():
                group.create_task(self._make(log_dir, lane, numbered, results, on_made))
        logs = {
            n: (log_dirs[n].directory, log) for n, log in results.items() if isinstance(log, Log)
        }
        if logs and (refused := await self._keep(list(logs.values()))) is not None:
            results |= dict.fromkeys(logs, refused)
        for number, (directory, _) in logs.items():
            if (why := self._directories.failed.get(directory.path)) is not None:
                results[number] = KafkaStorageError(f"{directory.path} is out of service: {why}")
        return [results[number] for number in range(len(wanted))]

    async def _make(
        self,
        log_dir: LogDir,
        lane: DiskLane,
        numbered: list[tuple[int, NewLog]],
        results: dict[int, Log | OSError | KafkaStorageError],
        on_made: Callable[[int], None],
    ) -> None:
        """Make the logs on the thread that they use from here on."""
        for first in range(0, len(numbered), LOGS_A_JOB):
            job = numbered[first : first + LOGS_A_JOB]
            make = partial(log_dir.directory.make_logs, [new for _, new in job])
            made = await to_the_end(lane.thread, make)
            on_made(len(made))
            results.update(zip((number for number, _ in job), made, strict=True))
        for error in (results[number] for number, _ in numbered):
            if isinstance(error, OSError):
                self._dirs.suffers(log_dir, error)

    async def _keep(self, made: list[tuple[DataDirectory, Log]]) -> OSError | None:
        """Record the logs as hosted; returns the reason if that fails. A directory that cannot
        store it goes out of service, while others are in service.
        """
        while True:
            try:
                await self._dirs.in_registry(partial(self._directories.keep_logs, made))
            except OSError as error:
                keys = {(log.topic_id, log.partition) for _, log in made}
                behind = [d for d in self._dirs.online() if not keys <= d.directory.state.hosted]
                if not behind or not self._dirs.suffers(behind[0], error):
                    return error
            else:
                return None

    def _may_be_elsewhere(self, state: PartitionState) -> str | None:
        failed = self._directories.failed
        # A replica that a reassignment adds is in none of them, unless it was here before.
        is_added = (
            self._me in state.adding
            and (state.topic_id, state.partition) not in self._directories.hosted
        )
        if not failed or state.is_new or is_added:
            return None
        return (
            f"{state.where} is not here, but may be in {', '.join(failed)}, out of service: "
            f"repair it, or take it out of log.dirs, and restart broker {self._me}"
        )

    async def _make_way(self, state: PartitionState) -> None:
        """Remove files that an error kept here, before another replica takes their name. Raises
        KafkaStorageError if that fails; a later try may succeed.
        """
        for path in self._in_the_way(state):
            await self._not_given_up[path]()
        for path in self._in_the_way(state):
            raise KafkaStorageError(
                f"{path} is of a replica that was removed, and the disk does not let it go; see to "
                "the disk, it is tried again"
            )

    def _in_the_way(self, state: PartitionState) -> list[str]:
        name = f"/{state.topic}-{state.partition}"
        return [path for path in self._not_given_up if path.endswith(name)]

    def waits_for_way(self, state: PartitionState) -> bool:
        return bool(self._in_the_way(state))

    def refuse(self, state: PartitionState, why: str) -> None:
        """Refuse the replica with this reason, unless it is refused already: the first reason says
        more.
        """
        self.refused.setdefault((state.topic_id, state.partition), Refusal(why))
        self._controller.report_offline()

    async def forget(self, key: Key, *, delete: bool) -> None:
        """Drop a refused replica that is no longer assigned to this broker. Its files, if any, are
        removed to free the name for a topic of the same name (P-19).
        """
        async with self._opening:
            if self.refused.pop(key, None) is None:
                return
            unopened = self._unopened.pop(key, None)
            if unopened is None:
                try:
                    await self._dirs.forget_hosted(*key)
                except OSError as error:  # it is missing at the next start too, and goes then
                    self._log.error("a missing replica is not forgotten", reason=str(error))
                return
            found = unopened.found
            where = (f"{found.topic}:{found.partition}", found.path)
            log_dir = next(d for d in self._dirs.all if d.directory is unopened.directory)
            await self._give_up(log_dir, found, where, delete=delete)

    async def delete(self, partition: Partition) -> None:
        """Free the name at once, remove the files later (P-51)."""
        await self._retire(partition, delete=True)

    async def set_aside(self, partition: Partition) -> None:
        """Keep the files under another name, for the operator to remove (I-87)."""
        await self._retire(partition, delete=False)

    async def _retire(self, partition: Partition, *, delete: bool) -> None:
        async with partition.gate:
            await partition.abandon_cleaning()
            log_dir = self._dirs.of(partition.log)
            where = (partition.name, partition.log.path)
            await self._give_up(log_dir, partition.log, where, delete=delete)

    async def _give_up(
        self, log_dir: LogDir, log: Log | PartitionDir, where: tuple[str, str], *, delete: bool
    ) -> None:
        """Remove or rename the log. If the disk refuses, it is tried again before another log takes
        the name; otherwise the next start finds it, as a stray.
        """
        (name, path), key = where, (log.topic_id, log.partition)
        self._not_given_up.pop(path, None)
        if log_dir.failure is not None:
            return
        give_up = self._directories.delete_log if delete else self._directories.mark_stray
        try:
            await self._dirs.in_registry(partial(give_up, log_dir.directory, log))
        except OSError as error:
            self._not_given_up[path] = partial(self._give_up, log_dir, log, where, delete=delete)
            behind = [d for d in self._dirs.online() if key in d.directory.state.hosted]
            self._dirs.suffers([*behind, log_dir][0], error)
            self._log.error("a replica could not be removed", partition=name, reason=str(error))
        else:
            if delete:
                self._purge(log_dir)
            else:
                await self.look_for_strays()
                self._log.warning("stray replica set aside", partition=name, was=path)

    def _purge(self, log_dir: LogDir) -> None:
        """One purge takes away all that was deleted before it begins."""
        if log_dir in self._to_purge:
            return
        self._to_purge.add(log_dir)

        def purge() -> None:
            self._to_purge.discard(log_dir)
            for failure in log_dir.directory.purge_deleted():
                self._log.warning("a deleted file is still there", why=failure)

        log_dir.cold.submit(purge)
