"""Replacement of a controller's store by a restored one, and the update of the brokers'
directories.

The new log's directory is written whole and durable under another name. Then the old one is
renamed, never deleted, and the new one takes its name. The new store's id is written next, and the
brokers' memories last. After an interruption `restore` is run again. Until then the controller
refuses a broker whose directory is not yet updated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.controller.metadata_log import CONFIG, DIRECTORY, TOPIC_ID
from strandline_broker.storage.controller.metadata_snapshot import SnapshotId, write_snapshot
from strandline_broker.storage.directory.directory import DirectoryError
from strandline_broker.storage.directory.meta_properties import write_meta_properties
from strandline_broker.storage.directory.strandline_state import read_state, write_state
from strandline_broker.storage.files.partition_metadata import write_partition_metadata
from strandline_broker.storage.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.storage.directory.meta_properties import MetaProperties
    from strandline_broker.storage.directory.survey import FoundDirectory
    from strandline_runtime.runtime import FileSystem

UNFINISHED: Final = "restored-store.tmp"


def set_aside_name(random_id: bytes) -> str:
    return f"{DIRECTORY}.{random_id.hex()}-stray"


def check_not_half_done(fs: FileSystem, root: str) -> None:
    """Raise DirectoryError if an earlier restoration stopped between its two renames."""
    names = sorted(fs.listdir(root))
    aside = [n for n in names if n.startswith(f"{DIRECTORY}.") and n.endswith("-stray")]
    if DIRECTORY not in names and UNFINISHED in names and aside:
        raise DirectoryError(
            f"a restoration of {root} broke off: rename {aside[-1]} back to {DIRECTORY} and run it "
            f"again"
        )


def write_store(
    fs: FileSystem,
    root: str,
    meta: MetaProperties,
    snapshot: SnapshotId,
    values: Iterable[bytes],
    *,
    aside: str,
    now_ms: int,
) -> None:
    """Make the directory `root` a store that begins from `snapshot`; `meta` holds its new id. The
    old content is kept as `aside`.
    """
    assert meta.store_id is not None, meta
    unfinished = f"{root}/{UNFINISHED}"
    if fs.exists(unfinished):
        for name in fs.listdir(unfinished):
            fs.unlink(f"{unfinished}/{name}")
    fs.makedirs(unfinished)
    write_partition_metadata(fs, unfinished, TOPIC_ID)
    Segment.create(
        fs, unfinished, snapshot.end_offset, index_interval=CONFIG.index_interval_bytes
    ).view().file.sync()
    write_snapshot(fs, unfinished, snapshot, values, store_id=meta.store_id, now_ms=now_ms)
    fs.fsync_dir(unfinished)
    fs.fsync_dir(root)
    if fs.exists(f"{root}/{DIRECTORY}"):
        fs.replace(f"{root}/{DIRECTORY}", f"{root}/{aside}")
    fs.replace(unfinished, f"{root}/{DIRECTORY}")
    fs.fsync_dir(root)
    write_meta_properties(fs, root, meta)


def tell_broker(
    fs: FileSystem,
    found: FoundDirectory,
    *,
    cluster_id: str,
    store_id: str,
    controller_epoch: int,
    metadata_offset: int,
) -> None:
    """Make a broker's directory obey the restored store from its first record on."""
    state = read_state(fs, found.path) or found.state
    write_state(
        fs,
        found.path,
        replace(
            state,
            cluster_id=cluster_id,
            store_id=store_id,
            controller_epoch=controller_epoch,
            metadata_offset=metadata_offset,
        ),
    )
