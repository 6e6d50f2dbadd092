"""Cuts at a log's end: a truncation to an offset, and a log begun anew (I-47, P-34).

Both first see that no checkpoint promises more than what stays, then show the log as it will be,
and only then take bytes away; durable on return.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.log.reader import damage_met
from strandline_broker.storage.log.state import Tail
from strandline_broker.storage.segment.damage import BadBatch
from strandline_broker.storage.segment.reader import Place, first_batch_to
from strandline_broker.storage.segment.segment import Segment
from strandline_broker.storage.segment.txn_index import truncate_txn_index

if TYPE_CHECKING:
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.log.recent_batches import RecentBatches
    from strandline_runtime.runtime import FileSystem

NOTHING: Final = -1
_base_of: Final = attrgetter("base_offset")


def truncate_to(fs: FileSystem, log: Log, offset: int) -> None:
    """Cut log, indexes and epochs before the batch with `offset`.

    At or beyond the end only an epoch goes in which nothing was appended.
    """
    log.state.check_usable()
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return
    if offset < max(log.log_start_offset, log.segments[0].base_offset):
        begin_anew(fs, log, offset)
        return
    segments = log.segments
    i = bisect_right(segments, offset, key=_base_of) - 1
    end_offset = offset
    try:
        position, end_offset = _place_of(log, i, offset)
        if end_offset < log.log_start_offset:
            # The first batch reaches back over the log's start, and all of it has to go.
            begin_anew(fs, log, log.log_start_offset)
            return
        # Readers still hold the old segment: what stays is described by a new one.
        kept = _kept(log, segments[i], position, end_offset)
    except BadBatch as bad:
        if end_offset <= log.log_start_offset:
            # Nothing has to stay, so what does not read lies below the log's start.
            begin_anew(fs, log, log.log_start_offset)
            return
        # What should stay does not read, and nothing has been cut: it is for a healing to cut
        # more, once this replica does not count (I-15).
        raise damage_met(log, bad) from bad
    # What fails up to here, for want of room, leaves the log as it was.
    _limit_checkpoints(log, end_offset, log.log_end_offset)
    try:
        _cut(fs, log, i, end_offset, *kept)
    except OSError as error:
        log.state.fail(f"{log.path}: a truncation to {offset} failed half-way ({error})")
        raise


def _kept(
    log: Log, segment: Segment, position: int, end_offset: int
) -> tuple[Segment, RecentBatches]:
    """What stays of a segment. Only what lies above the log's start has to read: dead batches that
    do not are nobody's to heal.
    """
    gaps_below, start = log.gaps.below, log.log_start_offset
    try:
        return segment.cut(position, end_offset, gaps_below=gaps_below)
    except BadBatch as bad:
        if bad.offset >= start:
            raise
        low = log.damaged_ranges.resume_before(segment.base_offset, start)
        found = first_batch_to(
            segment, segment.view(), start, segment.size, low=low, gaps_below=gaps_below
        )
        if found is None or bad.offset >= found[1].base_offset:
            raise
        live = found[0], found[1].base_offset
        return segment.cut(position, end_offset, gaps_below=gaps_below, low=live)


def _place_of(log: Log, i: int, offset: int) -> Place:
    """Where segment `i` is cut so that the log ends before the batch with `offset`.

    BadBatch where something before that does not read. What is damaged at the very place goes with
    what is cut.
    """
    segments, recent = log.state.tail
    segment, gaps_below = segments[i], log.gaps.below
    if offset == segment.base_offset:
        return 0, offset
    if segment is segments[-1] and gaps_below < offset:
        known = recent.bound(offset)
        if known is not None:  # no disk can say anything else
            return known
    low = log.damaged_ranges.resume_before(segment.base_offset, offset)
    try:
        found = first_batch_to(
            segment, segment.view(), offset, segment.size, low=low, gaps_below=gaps_below
        )
    except BadBatch as bad:
        if bad.offset < offset:
            raise
        return bad.position, offset
    if found is None:
        return segment.size, min(offset, segment.end_offset)
    return found[0], max(min(offset, found[1].base_offset), segment.base_offset)


def _cut(
    fs: FileSystem, log: Log, i: int, end_offset: int, kept: Segment, recent: RecentBatches
) -> None:
    segments = log.segments
    # Before the new end shows: else the log could reach their offsets again with other batches.
    log.snapshots.remove_above(end_offset)
    log.state.cut(end_offset, Tail((*segments[:i], kept), recent))
    log.limits.count()
    log.open_segments.give_up(segments[i:])
    for removed in reversed(segments[i + 1 :]):
        removed.remove()
    if i + 1 < len(segments):
        fs.fsync_dir(log.path)
    file = kept.view().file
    file.truncate(kept.size)
    with log.noting_failure():
        file.sync()
    kept.write_indexes()
    truncate_txn_index(fs, kept.path("txnindex"), end_offset)
    log.leader_epochs.truncate_from_end(end_offset)


def begin_anew(fs: FileSystem, log: Log, offset: int, *, is_deletion: bool = False) -> None:
    """Drop everything and begin an empty log at `offset`.

    `is_deletion`: the log reached that far, and what lay below was deleted. The epoch in which it
    did stays known, as after every deletion (I-5).
    """
    log.state.check_usable()
    segments = log.segments
    interval = log.config.index_interval_bytes
    # Of an empty log at 0 they promise too little: as if its first segment were missing (I-75).
    _limit_checkpoints(log, 0, max(log.log_end_offset, offset))
    try:
        log.snapshots.remove_above(NOTHING)
        empty = Segment(fs, log.path, offset, size=0, end_offset=offset, index_interval=interval)
        log.state.empty(empty)
        log.limits.count()
        log.open_segments.give_up(segments)
        for segment in reversed(segments):
            segment.remove()
        log.deleted_segments.remove_behind()
        fs.fsync_dir(log.path)
        if is_deletion:
            log.leader_epochs.truncate_from_start(offset)
        else:
            log.leader_epochs.clear()
        begun = Segment.create(fs, log.path, offset, index_interval=interval)
        fs.fsync_dir(log.path)
        log.state.begin(begun)
    except OSError as error:
        log.state.fail(f"{log.path}: a full truncation failed half-way ({error})")
        raise


def _limit_checkpoints(log: Log, offset: int, highest: int) -> None:
    """No checkpoint may come back above what stays: other records are appended there (I-7, I-13).
    What they say by now is no measure: until the cut shows, a flush may be noted, and written.
    """
    if offset < highest:
        log.limits.prepare(offset)
