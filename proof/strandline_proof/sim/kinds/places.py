"""Places in the code, named by the next disk operation: a process may end there, or stand still for
a while (`crash-at`, `delay-at`).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Place(NamedTuple):
    """A place: the next operation is `operation` on a path that contains `part`. With `behind`, the
    disk has done such an operation within the last few, which tells apart two places with the same
    next one. `starts`: only brokers that are not registered yet.
    """

    operation: str
    part: str
    behind: tuple[str, str] | None = None
    starts: bool = False


NEAR: Final = 16
"""The number of operations back that `behind` looks: a cut of a log has fewer between its ends."""

_LOG_STARTS: Final = "log-start-offset-checkpoint"
_RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
_WATERMARKS: Final = "replication-offset-checkpoint"
_CLEANED: Final = "cleaner-offset-checkpoint"
_EPOCHS: Final = "leader-epoch-checkpoint"
_DELETED: Final = ".deleted"
_STORE: Final = "__cluster_metadata-0/"

OFTEN: Final[dict[str, Place]] = {
    "append": Place("pwritev", ".log"),
    "flush": Place("fsync", ".log"),
    "epoch-flush": Place("fsync", _EPOCHS),
    "epoch-rename": Place("replace", _EPOCHS),
    "index": Place("pwritev", "index"),
    "truncation": Place("ftruncate", ".log"),
    "high-watermark": Place("replace", _WATERMARKS),
    "recovery-point": Place("replace", _RECOVERY_POINTS),
    "state": Place("fsync", "strandline-state"),
    "new-directory": Place("makedirs", "/data/"),
    "cleaned": Place("fsync", ".cleaned"),
    "swap": Place("replace", ".log"),
    "swap-flush": Place("fsync_dir", "/compacted-0"),
}
"""Places that `crash-at` draws by itself."""
CHECKPOINTS: Final[dict[str, Place]] = {
    f"{name}-{step}": place
    for name, file in (
        ("log-starts", _LOG_STARTS),
        ("recovery-points", _RECOVERY_POINTS),
        ("high-watermarks", _WATERMARKS),
        ("cleaned-offsets", _CLEANED),
        ("epochs", _EPOCHS),
        ("limit", "checkpoint-limit-"),
        ("topic-id", "partition.metadata"),
    )
    for step, place in (
        ("written", Place("fsync", file)),
        ("synced", Place("replace", file)),
        ("renamed", Place("fsync_dir", "/data", ("replace", file))),
    )
}
"""Places of each checkpoint: before its bytes are durable, before its rename, before the rename is
durable.
"""
CUTS: Final[dict[str, Place]] = {
    "cut-limited": Place("ftruncate", ".log", ("replace", "checkpoint-limit-")),
    "cut-flush": Place("fsync", ".log", ("ftruncate", ".log")),
    "cut-epochs": Place("fsync", _EPOCHS, ("ftruncate", ".log")),
    "cut-snapshots": Place("unlink", ".snapshot"),
}
DELETIONS: Final[dict[str, Place]] = {
    "segment-dropped": Place("replace", f".log{_DELETED}"),
    "producers-dropped": Place("replace", f".snapshot{_DELETED}"),
    "segment-dropped-renamed": Place("fsync_dir", "/data/", ("replace", _DELETED)),
    "segment-removed": Place("unlink", f".log{_DELETED}"),
}
ROLLS: Final[dict[str, Place]] = {
    "producers-written": Place("fsync", ".snapshot"),
    "sealed-index-flush": Place("fsync", "index"),
}
STARTS: Final[dict[str, Place]] = {
    "start-flush": Place("fsync", ".log", starts=True),
    "start-cut": Place("ftruncate", ".log", starts=True),
    "start-names": Place("fsync_dir", "/data/", starts=True),
    "start-epochs": Place("fsync", _EPOCHS, starts=True),
    "start-producers": Place("unlink", ".snapshot", starts=True),
    "start-leftovers": Place("unlink", _DELETED, starts=True),
    "start-state": Place("fsync", "strandline-state", starts=True),
}
STORE: Final[dict[str, Place]] = {
    "decision": Place("pwritev", f"{_STORE}0"),
    "decision-flush": Place("fsync", f"{_STORE}0"),
    "store-snapshot-written": Place("fsync", ".checkpoint."),
    "store-snapshot-synced": Place("replace", ".checkpoint"),
    "store-snapshot-renamed": Place("fsync_dir", _STORE[:-1], ("replace", ".checkpoint")),
    "store-segment-removed": Place("unlink", f"{_STORE}0"),
}
"""Places of the controller alone."""
PLACES: Final[dict[str, Place]] = {
    **OFTEN,
    **CHECKPOINTS,
    **CUTS,
    **DELETIONS,
    **ROLLS,
    **STARTS,
    **STORE,
}
