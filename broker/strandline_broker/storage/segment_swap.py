"""Sealed segments give way to nothing (retention) or to new ones (compaction) in a log that is in
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_broker.storage.log import Log
    from strandline_broker.storage.segment import Segment


def replace_segments(
    log: Log,
    old: Sequence[Segment],
    new: Sequence[Segment],
    move_files: Callable[[], None] | None,
) -> bool:
    """Let `new` stand where `old` stood, a run of sealed segments; one step on the event loop.

    The caller holds the partition's gate: nothing else changes the log meanwhile. With no `new`
    (retention) `old` are the log's first segments and the log start lies behind them. Otherwise
    `new` are sealed, in order, begin at or after the first of `old` and end where the last
    ends. False, and nothing done, if `old` is not in the log as it was: a truncation came
    between.

    Then `move_files` gives files their new names, where old and new share one. It must be quick
    and not sync: it is on the loop. If it raises OSError, the log is out of use.

    A reader that took the old segments goes on with the files it has open. If it then has to
    open one that was renamed, it fails or finds another file; but it sees that the log's
    generation has moved and starts over on the new segments. So memory changes first,
    then the files, and those of `old` may be renamed any time later, in the disk pool, unless
    `new` needs their names.
    """
    segments = log.segments
    first = next((i for i, segment in enumerate(segments) if segment is old[0]), len(segments))
    behind = first + len(old)
    if behind >= len(segments) or segments[first:behind] != tuple(old):
        return False
    if new:
        assert new[0].base_offset >= old[0].base_offset, (log.path, new[0].base_offset)
        assert new[-1].end_offset == old[-1].end_offset, (log.path, new[-1].end_offset)
    else:
        assert first == 0, (log.path, first)
        assert log.log_start_offset >= old[-1].end_offset, (log.path, log.log_start_offset)
    with log.state.replaced((*segments[:first], *new, *segments[behind:])):
        log.open_segments.forget(old)
        try:
            if move_files is not None:
                move_files()
        except OSError as error:
            log.state.fail(f"{log.path}: replacing segments failed half-way ({error})")
            raise
    return True
