"""The check that every acknowledged record is in the table once: partition, offset and value of
each.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strandline_cli.demo.ledger import Ledger, PartitionLedger

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


@dataclass(frozen=True, slots=True)
class Findings:
    """The comparison of acknowledged records with the table."""

    in_table: int
    lost: int
    """Records that were acknowledged, and are not in the table with the same offset and value."""
    duplicated: int
    """Offsets that are in the table twice, and records there without an acknowledgement."""
    gaps: int
    """Offsets missing between a partition's first record and its last one in the table."""

    @property
    def perfect(self) -> bool:
        return self.lost == 0 and self.duplicated == 0 and self.gaps == 0

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(
            self.in_table + other.in_table,
            self.lost + other.lost,
            self.duplicated + other.duplicated,
            self.gaps + other.gaps,
        )


def read_table(path: Path, topic: str) -> "pa.Table":
    """Partition, offset and value of the topic's rows in a Delta table."""
    from deltalake import DeltaTable

    columns = ["partition", "offset", "value", "key", "timestamp", "leader_epoch"]
    table = DeltaTable(str(path))
    return table.to_pyarrow_table(columns=columns, filters=[("topic", "=", topic)])


def compare(ledger: Ledger, table: "pa.Table") -> Findings:
    """The comparison of every acknowledged record with the rows of the table."""
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    found = Findings(0, 0, 0, 0)
    in_table = {int(p) for p in pc.unique(table["partition"]).to_pylist()}
    for partition in sorted(in_table | set(ledger.partitions)):
        rows = table.filter(pc.equal(table["partition"], partition))
        found += _compare_partition(ledger.partitions.get(partition, PartitionLedger()), rows)
    # A record whose outcome the producer does not know may stand in the table once.
    excused = min(ledger.unknown, found.duplicated)
    return Findings(found.in_table, found.lost, found.duplicated - excused, found.gaps)


def _compare_partition(ledger: PartitionLedger, rows: "pa.Table") -> Findings:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.sort_by("offset")
    offsets = rows["offset"].to_numpy()
    acknowledged = np.asarray(ledger.known_offsets(), dtype=np.int64)
    distinct = np.unique(offsets)
    repeated = len(offsets) - len(distinct)
    untold = len(np.setdiff1d(distinct, acknowledged))
    # Records start at offset 0: a table that begins later has a gap there.
    gaps = int(distinct[-1]) + 1 - len(distinct) if len(distinct) else 0

    kept = np.isin(acknowledged, distinct)
    places = np.searchsorted(offsets, acknowledged[kept])
    values = pa.array(ledger.values, type=pa.binary()).filter(pa.array(kept))
    stored = rows["value"].combine_chunks().cast(pa.binary()).take(pa.array(places))
    same = pc.sum(pc.fill_null(pc.equal(values, stored), False)).as_py() or 0
    return Findings(len(offsets), len(acknowledged) - same, repeated + untold, gaps)
