"""`controller restore` without its command line. It runs offline, on directories that no other
process has open (P-76).

The restoration reads the remains of the controller's store and the brokers' directories.
`core.controller.log.restoration` makes a state of them. The result is written as a store with a new
id (I-92). Brokers remember the new id from then on, so the old store can never return.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strandline_broker.core.controller.log.records import LaterRecord
from strandline_broker.core.controller.log.restoration import (
    CannotRestore,
    FoundBroker,
    FoundReplica,
    restored_state,
)
from strandline_broker.core.controller.log.snapshot import take
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.hosts.controller.pipeline import replay_log
from strandline_broker.storage.controller.metadata_log import DIRECTORY, MetadataLog
from strandline_broker.storage.controller.metadata_snapshot import LaterSnapshot, SnapshotId
from strandline_broker.storage.controller.restored_store import (
    check_not_half_done,
    set_aside_name,
    tell_broker,
    write_store,
)
from strandline_broker.storage.directory.directory import DataDirectory, DirectoryError
from strandline_broker.storage.directory.meta_properties import (
    MetaProperties,
    new_directory_id,
    read_meta_properties,
)
from strandline_broker.storage.directory.survey import FoundDirectory, lock_directory, survey
from strandline_broker.storage.files.damage import DamagedLog
from strandline_proto.errors import WireError
from strandline_proto.ids import BrokerId, TopicId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    controller_dir: str
    broker_dirs: tuple[str, ...]
    """All data directories of all brokers."""
    node_id: int | None
    """The controller's node id; None: the one in its directory."""
    discard_store: bool
    """True if the old store is ignored, whatever remains of it."""
    recreate_missing: bool
    defaults: Mapping[str, str] | None = None
    """The controller's defaults for topics that set none; None: unknown here."""


class Restoration:
    """A restoration, which holds every directory's lock throughout its `with` block."""

    def __init__(self, runtime: Runtime, request: RestoreRequest) -> None:
        self._runtime = runtime
        self._fs = runtime.fs
        self._request = request
        self._locks = ExitStack()
        self.lines: list[str] = []
        """The findings and the planned changes, for the operator, one a line."""

    def __enter__(self) -> Restoration:
        """DirectoryError, CannotRestore or OSError: nothing was changed."""
        try:
            self._open()
        except BaseException:
            self._locks.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()

    def _open(self) -> None:
        fs, request = self._fs, self._request
        if not request.broker_dirs:
            raise CannotRestore("no broker's data directory is given: give all of them")
        for path in request.broker_dirs:
            self._locks.callback(fs.close, lock_directory(fs, path))
        self._found = [survey(fs, path, self._note) for path in request.broker_dirs]
        brokers = _by_broker(self._found)
        fs.makedirs(request.controller_dir)
        check_not_half_done(fs, request.controller_dir)
        old = self._old_store()
        meta = read_meta_properties(fs, request.controller_dir)
        self._locks.callback(fs.close, lock_directory(fs, request.controller_dir))
        self._meta = self._new_meta(meta, brokers)
        for broker in brokers:
            self._note(
                f"broker {broker.broker_id}: {len(broker.replicas)} replicas; it obeyed store"
                f" {broker.store_id or '(none)'} up to epoch {broker.controller_epoch}, offset"
                f" {broker.metadata_offset}"
            )
        made = restored_state(
            old,
            None if meta is None else meta.store_id,
            brokers,
            recreate_missing=request.recreate_missing,
            defaults=request.defaults,
        )
        self.state = made.state
        self.lines += made.lines
        self._note(
            f"the store's id becomes {self._meta.store_id}: the old one is never obeyed again"
        )

    def _note(self, line: str) -> None:
        self.lines.append(line)

    def _old_store(self) -> ControllerState | None:
        fs, path = self._fs, self._request.controller_dir
        if self._request.discard_store or not fs.exists(f"{path}/{DIRECTORY}"):
            self._note(
                f"{path}: no store is read; the configuration of topics, and what was altered"
                " for brokers or by default, is lost"
            )
            return None
        meta = read_meta_properties(fs, path)
        if meta is None:
            raise CannotRestore(
                f"{path} has a store and no meta.properties: put that back, or --discard-store to"
                " do without what the store says"
            )
        directory = DataDirectory.open(
            fs, path, node_id=meta.node_id, cluster_id=None, new_id=self._runtime.random_id
        )
        state = ControllerState()
        try:
            # An earlier restoration may have ended before it wrote the store's new id.
            log = MetadataLog.open(fs, directory, self._note, of_any_store=True)
            replay_log(state, log)
            log.close()
        except (LaterSnapshot, LaterRecord) as error:
            raise CannotRestore(
                f"a later build has written the store in {path} ({error}): restore it with the"
                " command of that build, or of a later one"
            ) from error
        except (DirectoryError, DamagedLog, ValueError, WireError) as error:
            raise CannotRestore(
                f"what is left of the store does not read ({error}); --discard-store to do without"
                " it: the configuration of topics and brokers is then lost"
            ) from error
        finally:
            directory.close()
        self._note(
            f"{path}: store {meta.store_id}, {len(state.topics)} topics, up to epoch"
            f" {state.controller_epoch}, offset {state.last_offset}"
        )
        return state

    def _new_meta(
        self, meta: MetaProperties | None, brokers: Sequence[FoundBroker]
    ) -> MetaProperties:
        clusters = {b.cluster_id for b in brokers if b.cluster_id}
        if len(clusters) > 1:
            raise CannotRestore(
                f"the brokers' directories are of several clusters ({', '.join(sorted(clusters))}):"
                " give those of one"
            )
        cluster_id = clusters.pop() if clusters else None if meta is None else meta.cluster_id
        if cluster_id is None:
            raise CannotRestore(
                "no broker given was ever part of a cluster: there is nothing to restore"
            )
        store_id = new_directory_id(self._runtime.random_id)
        if meta is None:
            if self._request.node_id is None:
                raise CannotRestore(
                    f"{self._request.controller_dir} does not say the controller's node id: give it"
                    " with --node-id"
                )
            directory_id = new_directory_id(self._runtime.random_id)
            return MetaProperties(self._request.node_id, directory_id, cluster_id, store_id)
        if self._request.node_id not in (None, meta.node_id):
            raise CannotRestore(
                f"{self._request.controller_dir} belongs to node {meta.node_id}, not to"
                f" {self._request.node_id}"
            )
        return replace(meta, cluster_id=cluster_id, store_id=store_id)

    def carry_out(self) -> None:
        """Write the new store. OSError: run it again; the old files are unchanged."""
        taken = take(self.state)
        assert self._meta.store_id is not None
        assert self._meta.cluster_id is not None
        write_store(
            self._fs,
            self._request.controller_dir,
            self._meta,
            SnapshotId(taken.end_offset, taken.controller_epoch),
            taken.values(),
            aside=set_aside_name(self._runtime.random_id()),
            now_ms=int(self._runtime.clock.time() * 1000),
        )
        for found in self._found:
            tell_broker(
                self._fs,
                found,
                cluster_id=self._meta.cluster_id,
                store_id=self._meta.store_id,
                controller_epoch=taken.controller_epoch,
                metadata_offset=taken.end_offset - 1,
            )


def _by_broker(found: Sequence[FoundDirectory]) -> list[FoundBroker]:
    """One for each broker, whichever of its directories knows the most."""
    groups: dict[int, list[FoundDirectory]] = {}
    for directory in found:
        groups.setdefault(directory.meta.node_id, []).append(directory)
    brokers = []
    for node_id, directories in sorted(groups.items()):
        newest = max(
            (d.state for d in directories), key=lambda s: (s.controller_epoch, s.metadata_offset)
        )
        identities = {d.state.identity for d in directories if d.state.identity}
        if len(identities) > 1:
            paths = ", ".join(d.path for d in directories)
            raise CannotRestore(f"{paths} are of two brokers that both have node id {node_id}")
        brokers.append(
            FoundBroker(
                broker_id=BrokerId(node_id),
                cluster_id=next(
                    (d.meta.cluster_id for d in directories if d.meta.cluster_id), None
                ),
                directory_id=identities.pop() if identities else directories[0].meta.directory_id,
                store_id=newest.store_id,
                controller_epoch=newest.controller_epoch,
                metadata_offset=newest.metadata_offset,
                replicas=tuple(
                    FoundReplica(
                        log.topic,
                        TopicId(log.topic_id),
                        log.partition,
                        log.leader_epoch,
                        log.producer_id,
                    )
                    for directory in directories
                    for log in directory.logs
                ),
            )
        )
    return brokers
