"""Faults of disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import broker, seconds, server

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

FILES: Final = {
    "log": "*.log",
    "index": "*.index",
    "timeindex": "*.timeindex",
    "epochs": "leader-epoch-checkpoint",
    "high-watermark": "replication-offset-checkpoint",
    "recovery-point": "recovery-point-offset-checkpoint",
    "log-start": "log-start-offset-checkpoint",
    "cleaned": "cleaner-offset-checkpoint",
    "seal": "*checkpoint.seal",
    "snapshot": "*.snapshot",
    "identity": "partition.metadata",
    "identity-seal": "partition.metadata.seal",
    "limit": "checkpoint-limit-*[0-9]",
    "damaged-ranges": "damaged-ranges",
    "state": "strandline-state",
    "meta": "meta.properties",
    "meta-seal": "meta.properties.seal",
    "marker": ".kafka_cleanshutdown",
}
"""Kinds of files in which a bit may flip, each with a pattern of its name. The log and the
snapshots of the controller's store have kinds of their own.
"""
UNSTRUCK: Final = {
    ".lock": "its content is for people",
    "flush-failed": "it is empty",
    "compacted": "it is empty",
    "<any of these>.deleted": "it is not read any more",
    "<base offset>.txnindex": "no broker of ours writes one",
    "<base>.log.cleaned": "a start removes it",
    "<base>.log.swap": "of the compacted topic alone, where gaps are lawful: what a bit takes there"
    " cannot be told from what the cleaner took",
}
"""Files, as docs/internals/storage-format.md names them, in which no bit flips, with the reason."""
PASSING: Final = ("limit", "damaged-ranges")
"""Files that exist only now and then."""
LIVE: Final = ("log", "index", "timeindex")
"""Files whose bits may change under a process that has them open; the others are read at a start
alone.
"""


STALLS_S: Final = (0.02, 0.02, 0.02, 0.3, 0.3, 0.3, 1.8, 5.0)
"""Durations for which an operation is held up. The long ones outlast a session and the allowed lag
of a follower. They happen once in a fault, as a hang does, and every operation on the disk waits
with them.
"""


def _slow_disk(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "for_s": seconds(rng, 0.2, 3.0),
        "factor": rng.choice((10, 50, 300)),
    }


def _stalling_disk(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "for_s": seconds(rng, 0.2, 3.0),
        "probability": rng.choice((0.02, 0.2)),
        "stall_s": rng.choice(STALLS_S),
    }


def _rate(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "for_s": seconds(rng, 0.2, 2.0),
        "rate": rng.choice((0.01, 0.1, 0.5)),
    }


def _misread(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_rate(rng, topology), "node": broker(rng, topology)}


def _full(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "for_s": seconds(rng, 0.2, 3.0),
        "room": rng.choice((0, 100, 3000)),
    }


def _bit_flip(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": broker(rng, topology),
        "file": rng.choice(("log", "log", *LIVE)),
        "bits": rng.choice((1, 1, 3)),
        "restart_s": rng.choice((0.0, 0.0, 0.2, 1.5)),
    }


def _file_flip(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "file": rng.choice([*(file for file in FILES if file != "log"), *PASSING]),
        "bits": rng.choice((1, 1, 3)),
        "stops": rng.choice((True, False)),
        "down_s": seconds(rng, 0.2, 1.5),
    }


def offsets_flip(rng: random.Random, topology: Topology) -> dict[str, Any]:
    """A bit flip in the groups' topic; drawn only if there are groups."""
    return {
        "node": broker(rng, topology),
        "bits": rng.choice((1, 1, 3)),
        "restart_s": rng.choice((0.0, 0.2, 1.5)),
    }


def _helix(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"partition": rng.randrange(topology.partitions)}


def _store_flip(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"back": rng.choice((1, 2, 5, 20)), "repair_s": seconds(rng, 0.3, 2.0)}


def _snapshot_flip(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"back": rng.choice((0, 0, 0, 1)), "restart_s": seconds(rng, 0.1, 1.0)}


def _zero_tail(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": broker(rng, topology),
        "bytes": rng.choice((1, 61, 700, 9000)),
        "restart_s": seconds(rng, 0.1, 1.0),
    }


def _wipe(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": broker(rng, topology), "restart_s": seconds(rng, 0.1, 2.0)}


def _store_restored(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"age_s": seconds(rng, 0.5, 4.0), "meets_s": rng.choice((0.0, 0.2, 0.5))}


KINDS: Final[dict[str, Draw]] = {
    "slow-disk": _slow_disk,
    "stalling-disk": _stalling_disk,
    "fsync-error": _rate,
    "write-error": _rate,
    "short-write": _rate,
    "read-error": _rate,
    "misread": _misread,
    "disk-full": _full,
    "bit-flip": _bit_flip,
    "file-flip": _file_flip,
    "helix": _helix,
    "store-flip": _store_flip,
    "snapshot-flip": _snapshot_flip,
    "zero-tail": _zero_tail,
    "wipe": _wipe,
    "store-restored": _store_restored,
}
CHANGE_BYTES: Final = frozenset({"bit-flip", "file-flip", "offsets-flip", "helix", "misread"})
"""Kinds after which a process may read other bytes than were written."""
