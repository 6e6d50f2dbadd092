"""Signs that a log was compacted, so that gaps between its batches are valid.

The topic's configuration belongs to the controller and is not on this disk. The tools use these
signs instead:

- The file `compacted` in the partition's directory.
- A cleaned segment that waits to be swapped in.
- The cleaner's checkpoint, which is the only sign in a directory that Kafka wrote.
- Batches that only a cleaning leaves.
- The user's option.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strandline_broker.offline.batches import Batch, headers, scan
from strandline_broker.offline.checkpoints import INT64_MAX
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.layout import SegmentFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.offline.disk import Disk
    from strandline_broker.offline.findings import Expected
    from strandline_broker.offline.layout import PartitionFiles

HEADERS_WINDOW: Final = 16 << 10


def lawful_gaps(files: PartitionFiles, expected: Expected, *, told: bool) -> tuple[int, str | None]:
    """(offset up to which offsets may be missing, the sign of it), without reading the log; (0,
    None) if there is no sign.
    """
    if told:
        return INT64_MAX, "--compacted"
    if files.has_gaps_marker:
        return INT64_MAX, "the file `compacted` says so"
    if files.swaps:
        return INT64_MAX, "a cleaned segment waits to be swapped in"
    if expected.cleaned_to is not None:
        return expected.cleaned_to, f"the cleaner has come to offset {expected.cleaned_to}"
    return 0, None


def cleaned_batch(disk: Disk, files: PartitionFiles) -> str | None:
    """The first batch that proves a cleaning, found by a walk over every header. None if there is
    none.
    """
    for segment in files.segments:
        with OpenFile(disk, segment.log, window=HEADERS_WINDOW) as file:
            for batch in headers(file):
                if batch.was_compacted:
                    return f"the batch at offset {batch.base_offset} was cleaned"
    return None


def after_swaps(disk: Disk, files: PartitionFiles) -> PartitionFiles:
    """The partition after the next start, which finishes an interrupted cleaning (I-73): a whole
    `.swap` replaces the segments whose base offsets it covers.
    """
    segments = {segment.base_offset: segment for segment in files.segments}
    for path in files.swaps:
        base = int(path.rpartition("/")[2][:20])
        end = base + 1
        with OpenFile(disk, path) as file:
            found = list(_ends(file))
        if None in found and base in segments:
            continue  # it was not whole: the old segments are all there
        end = max([end, *(offset for offset in found if offset is not None)])
        for old in [offset for offset in segments if base <= offset < end]:
            del segments[old]
        stem = path.removesuffix("log.swap")
        index, times = (
            next((p for p in (f"{stem}{kind}.swap", f"{stem}{kind}") if disk.exists(p)), None)
            for kind in ("index", "timeindex")
        )
        segments[base] = SegmentFiles(base, path, index, times)
    return replace(files, segments=tuple(segments[base] for base in sorted(segments)))


def _ends(file: OpenFile) -> Iterator[int | None]:
    """The last offset + 1 of the last sound batch; a None before it if any bytes are not sound."""
    end = None
    for found in scan(file):
        if isinstance(found, Batch) and found.valid:
            end = found.last_offset + 1
        else:
            yield None
    if end is not None:
        yield end
