"""Decoders of the files of a data directory, the brokers' and the offline tools'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from crc32c import crc32c

from strandline_broker.offline import checkpoints, indexes
from strandline_broker.offline.findings import Expected, PartitionReport
from strandline_broker.offline.state_snapshots import check_state_snapshots
from strandline_broker.storage.controller.metadata_snapshot import (
    BadSnapshot,
    SnapshotId,
    read_snapshot,
    write_snapshot,
)
from strandline_broker.storage.directory import strandline_state
from strandline_broker.storage.directory.clean_shutdown import take_clean_shutdown
from strandline_broker.storage.directory.meta_properties import read_meta_properties
from strandline_broker.storage.files.checkpoint_limits import CheckpointLimits
from strandline_broker.storage.files.checkpoints import (
    HIGH_WATERMARKS,
    in_kafkas_form,
    read_offsets,
    write_checkpoint,
)
from strandline_broker.storage.files.partition_metadata import read_partition_metadata
from strandline_broker.storage.files.sealed_file import SealedFile
from strandline_broker.storage.log import producer_snapshot
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.segment.damaged_ranges import DamagedRanges
from strandline_broker.storage.segment.offset_index import OffsetIndex
from strandline_broker.storage.segment.time_index import TimeIndex, read_last
from strandline_broker.storage.segment.txn_index import ENTRY as TXN_ENTRY
from strandline_broker.storage.segment.txn_index import TxnIndex, is_sound
from support.decoders import ID, Decoder, Seal, disk_with, ignored, sealed_batch
from support.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from collections.abc import Callable


def _sealed_snapshot(data: bytes) -> bytes:
    return data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]


def _headed(head: bytes) -> Seal:
    """For files whose first line ends with the CRC-32C of all that follows."""

    def seal(data: bytes) -> bytes:
        _, line_end, body = data.partition(b"\n")
        body = body if line_end else data
        return head + b" %08x\n" % crc32c(body) + body

    return seal


def _written(write: Callable[[MemoryDisk], Any], path: str) -> bytes:
    disk = MemoryDisk([("/d/x", b"")])
    write(disk)
    return bytes(disk.files[path])


def _own(line: str) -> bytes:
    return _written(lambda fs: write_checkpoint(fs, "/d/l", [line]), "/d/l")


def _state() -> bytes:
    """With two changes behind it."""

    def write(fs: MemoryDisk) -> None:
        memory = strandline_state.Memory(fs, "/d")
        memory.update(
            STATE.hosted, **{name: getattr(STATE, name) for name in strandline_state.FIELDS}
        )
        memory.update({(bytes(16), 1)}, STATE.hosted, metadata_offset=10)
        memory.update(flush_policy="always")

    return _written(write, "/d/strandline-state")


def _sealed_state(data: bytes) -> bytes:
    head, _, rest = data.partition(b"\n")
    if head.startswith(b"strandline-state 1"):
        return _headed(b"strandline-state 1")(data)
    first, *changes = rest.split(b"\n")
    crc = crc32c(first)
    lines = [b"strandline-state 2 %08x" % crc, first]
    for change in changes[:-1]:
        crc = crc32c(change[9:], crc)
        lines.append(b"%08x " % crc + change[9:])
    return b"\n".join([*lines, *changes[-1:]])


def _sealed_offsets(data: bytes) -> Any:
    disk = disk_with(
        HIGH_WATERMARKS, in_kafkas_form(["t 0 5"]), (f"/d/{HIGH_WATERMARKS}.seal", data)
    )
    return read_offsets(SealedFile(disk, f"/d/{HIGH_WATERMARKS}"), ignored)


def _seal_of(data: bytes) -> bytes:
    body = b"%08x\n" % crc32c(data)
    return b"seal 1 %08x\n" % crc32c(body) + body


SNAPSHOT: Final = SnapshotId(5, 2)


def _read_snapshot(data: bytes) -> Any:
    disk = disk_with(SNAPSHOT.name, data)
    return read_snapshot(disk, "/d", SNAPSHOT, store_id=None)


def _verified_snapshot(data: bytes) -> Any:
    report = PartitionReport("/d", Expected())
    check_state_snapshots(disk_with(SNAPSHOT.name, data), [f"/d/{SNAPSHOT.name}"], report)
    return report.findings


def _producers(data: bytes) -> Any:
    return producer_snapshot.parse(data)


HOSTED: Final = frozenset({(bytes(16), 0)})


STATE: Final = strandline_state.BrokerState("c", "s", 3, 9, identity="i", hosted=HOSTED)


STATE_1: Final = _headed(b"strandline-state 1")(
    b'\n{"cluster_id": "c", "store_id": "s", "controller_epoch": 3, "metadata_offset": 9,'
    b' "flush_policy": "always", "identity": "i", "hosted": [["AAAAAAAAAAAAAAAAAAAAAA", 0]]}'
)
"""As version 1 had it."""


EPOCHS: Final = in_kafkas_form(["0 0", "3 17"])


OFFSETS: Final = in_kafkas_form(["t 0 5", "u.v 12 9000"])


PARTITION_METADATA: Final = f"version: 0\ntopic_id: {ID}".encode()


META: Final = b"#x\nversion=1\nnode.id=1\ndirectory.id=abc\ncluster.id=c\n"


MARKER: Final = b'{"version":0,"brokerEpoch":7}'


PRODUCER: Final = producer_snapshot.ProducerEntry(1, 2, 3, 4, 5, 6, 7, -1)
FORGOTTEN: Final = producer_snapshot.ProducerEntry(2, 0, 9, 4, 5, 6, -1, -1, begins_at=4)
"""A producer that began behind its first sequence."""


DECODERS: Final = (
    Decoder(
        "storage.offset_index",
        (OffsetIndex(0, [3, 9], [61, 700]).serialize(),),
        lambda data: OffsetIndex.parse(0, data),
    ),
    Decoder(
        "storage.time_index",
        (TimeIndex(0, [5, 9], [3, 8]).serialize(),),
        lambda data: (TimeIndex.parse(0, data), read_last(disk_with("t", data), "/d/t", 0)),
    ),
    Decoder(
        "storage.txn_index",
        (TXN_ENTRY.pack(0, 1, 2, 3, 4) * 2,),
        lambda data: (
            is_sound(data, base_offset=0, end_offset=4),
            TxnIndex(data).cut(4).collect(1, 4, []),
        ),
    ),
    Decoder(
        "storage.producer_snapshot",
        (
            producer_snapshot.serialize([PRODUCER]),
            producer_snapshot.serialize([PRODUCER, FORGOTTEN]),
        ),
        _producers,
        (ValueError,),
        _sealed_snapshot,
    ),
    Decoder(
        "storage.checkpoints",
        (OFFSETS,),
        lambda data: read_offsets(SealedFile(disk_with("c", data), "/d/c"), ignored),
    ),
    Decoder(
        "storage.sealed_file",
        (_seal_of(in_kafkas_form(["t 0 5"])),),
        _sealed_offsets,
        (),
        _headed(b"seal 1"),
    ),
    Decoder(
        "storage.leader_epochs",
        (EPOCHS,),
        lambda data: LeaderEpochs.load(disk_with("leader-epoch-checkpoint", data), "/d", ignored),
    ),
    Decoder(
        "storage.checkpoint_limits",
        (_own("7 cleaner-offset-checkpoint"),),
        lambda data: CheckpointLimits.load(disk_with("checkpoint-limit-3", data), "/d", ignored),
        (),
        _headed(b"1"),
    ),
    Decoder(
        "storage.damaged_ranges",
        (_own("1 2 0 61 -1 a bad crc"),),
        lambda data: DamagedRanges.load(disk_with("damaged-ranges", data), "/d", ignored),
        (),
        _headed(b"1"),
    ),
    Decoder(
        "storage.partition_metadata",
        (PARTITION_METADATA,),
        lambda data: read_partition_metadata(disk_with("partition.metadata", data), "/d"),
        (ValueError,),
    ),
    Decoder(
        "storage.meta_properties",
        (META,),
        lambda data: read_meta_properties(disk_with("meta.properties", data), "/d"),
        (ValueError,),
    ),
    Decoder(
        "storage.strandline_state",
        (_state(), STATE_1),
        lambda data: strandline_state.read_state(disk_with("strandline-state", data), "/d"),
        (ValueError,),
        _sealed_state,
    ),
    Decoder(
        "storage.clean_shutdown",
        (MARKER,),
        lambda data: take_clean_shutdown(disk_with(".kafka_cleanshutdown", data), "/d", ignored),
    ),
    Decoder(
        "storage.metadata_snapshot",
        (
            _written(
                lambda fs: write_snapshot(fs, "/d", SNAPSHOT, [b"{}"], store_id="s", now_ms=1),
                f"/d/{SNAPSHOT.name}",
            ),
        ),
        lambda data: (_verified_snapshot(data), _read_snapshot(data)),
        (BadSnapshot,),
        sealed_batch,
    ),
    Decoder(
        "offline.indexes",
        (indexes.OFFSET_ENTRY.pack(3, 61) * 3,),
        lambda data: (
            list(indexes.offset_entries(disk_with("i", data), "/d/i", 0)),
            list(indexes.time_entries(disk_with("i", data), "/d/i", 0)),
        ),
        (ValueError,),
    ),
    Decoder(
        "offline.producer_entries",
        (
            producer_snapshot.serialize([PRODUCER]),
            producer_snapshot.serialize([PRODUCER, FORGOTTEN]),
        ),
        lambda data: indexes.producer_entries(disk_with("s", data), "/d/s"),
        (ValueError,),
        _sealed_snapshot,
    ),
    Decoder(
        "offline.aborted_transactions",
        (TXN_ENTRY.pack(0, 1, 2, 3, 4),),
        lambda data: indexes.aborted_transactions(disk_with("s", data), "/d/s"),
        (ValueError,),
    ),
    *(
        Decoder(
            f"offline.{read.__name__}",
            (golden,),
            lambda data, read=read: read(disk_with("c", data), "/d/c"),  # type: ignore[misc]
            (ValueError,),
            seal,
        )
        for read, golden, seal in (
            (checkpoints.offsets_of, OFFSETS, None),
            (checkpoints.epochs_of, EPOCHS, None),
            (checkpoints.seal_of, _seal_of(b""), _headed(b"seal 1")),
            (checkpoints.damage_of, in_kafkas_form(["1 2 0 61 -1 why"]), None),
            (checkpoints.limit_of, in_kafkas_form(["7"]), None),
            (checkpoints.topic_id_of, PARTITION_METADATA, None),
            (checkpoints.was_clean, MARKER, None),
            (checkpoints.check_meta, META, None),
            (checkpoints.flushed_always, STATE_1, _sealed_state),
            (checkpoints.flushed_always, _state(), _sealed_state),
        )
    ),
)
