"""Checks of a seeking reader's records and answers, against all other readers' records and the
writers' acknowledgements.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from strandline_chaos.history import Event
    from strandline_proof.sim.workload.seeker import Lookup, Seeker
    from strandline_proof.sim.workload.work_clients import Stamps


def check_sought(
    seeker: Seeker,
    events: Iterable[Event],
    *,
    excused: Collection[int],
    removed: Mapping[int, int],
    stamps: Stamps,
) -> None:
    """Checks the seeker. Partitions in `excused` are not judged; `removed`: by partition, the
    offset below which records may be gone.
    """
    acknowledged, values = _told(events)
    for (partition, offset), value in seeker.read.items():
        if partition in excused or offset < removed.get(partition, 0):
            continue
        if values.get((partition, offset)) != value:
            raise Violation(
                "seeker",
                f"partition {partition}: it read value {value} at offset {offset}, others read"
                f" {values.get((partition, offset))}",
            )
    times = _times({**acknowledged, **seeker.read, **values}, stamps)
    for lookup in seeker.lookups:
        if lookup.partition not in excused:
            known = times.get(lookup.partition, {})
            untold = Counter(stamps.times_of(lookup.partition)) - Counter(known.values())
            _check_lookup(lookup, known, removed.get(lookup.partition, 0), untold)


def _told(
    events: Iterable[Event],
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    """The value at each (partition, offset), by the writers' acknowledgements and by the readers'
    records. Retention may delete records that were never read.
    """
    acknowledged: dict[tuple[int, int], int] = {}
    values: dict[tuple[int, int], int] = {}
    for event in events:
        if event.f == "poll" and event.type == "ok":
            for partition, run in event.value[0][1]:
                values |= {(partition, offset): value for offset, value in run}
        elif event.f == "send" and event.type == "ok":
            _, partition, (offset, value) = event.value[0]
            if offset is not None:
                acknowledged[partition, offset] = value
    return acknowledged, values


def _times(values: Mapping[tuple[int, int], int], stamps: Stamps) -> dict[int, dict[int, int]]:
    """Times of the records by partition and offset."""
    found: dict[int, dict[int, int]] = {}
    for (partition, offset), value in values.items():
        time_ms = stamps.time_of(partition, value)
        if time_ms is not None:
            found.setdefault(partition, {})[offset] = time_ms
    return found


def _check_lookup(
    lookup: Lookup, times: Mapping[int, int], removed: int, untold: Collection[int]
) -> None:
    """Checks that the answer is the first record at or after the time, among those that the client
    knew of and that were not deleted. If records may have been deleted since, the answer may be a
    record whose offset was never reported; `untold` are the times of these.
    """
    asked = f"partition {lookup.partition}: the first record at or after {lookup.time_ms} is"
    end = lookup.end if lookup.offset is None else lookup.offset
    earlier = [o for o, t in times.items() if lookup.removed <= o < end and t >= lookup.time_ms]
    said = "not there" if lookup.offset is None else f"at offset {lookup.offset}"
    if earlier:
        raise Violation("seeker", f"{asked} at offset {min(earlier)}, and is said to be {said}")
    if lookup.offset is None or lookup.offset < lookup.removed:
        return
    time_ms = times.get(lookup.offset)
    if time_ms is None and lookup.offset < removed and lookup.said_ms in untold:
        time_ms = lookup.said_ms
    if time_ms is None or time_ms < lookup.time_ms or time_ms != lookup.said_ms:
        raise Violation(
            "seeker",
            f"{asked} said to be {said}, of time {lookup.said_ms}, and there is one of {time_ms}",
        )
