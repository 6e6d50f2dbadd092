"""The contents of a quarantine table: the number of rows for each reason, and a few rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.errors import TableError
from strandline_spark.stores import files

if TYPE_CHECKING:
    from deltalake import DeltaTable

SAMPLES_MAX: Final = 8
VALUE_MAX: Final = 160
"""Number of characters of a value that are shown."""
_COLUMNS: Final = ["topic", "partition", "offset", "reason", "detail", "value"]


@dataclass(frozen=True, slots=True)
class Sample:
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    value: str


@dataclass(frozen=True, slots=True)
class Reasons:
    """Counts by topic and reason, the most frequent first, and rows of as many kinds as fit."""

    counts: list[tuple[str, str, int]]
    samples: list[Sample]


def read_reasons(handle: DeltaTable, path: str) -> Reasons:
    """Reads the table. Raises TableError for an unreadable file."""
    counts: dict[tuple[str, str], int] = {}
    samples: dict[tuple[str, str], list[Sample]] = {}
    try:
        dataset = handle.to_pyarrow_dataset(filesystem=files.file_system(path))
        for batch in dataset.to_batches(columns=_COLUMNS):
            found = pa.table([batch["topic"], batch["reason"]], names=["topic", "reason"])
            for one in (
                found.group_by(["topic", "reason"]).aggregate([([], "count_all")]).to_pylist()
            ):
                kind = (str(one["topic"]), str(one["reason"]))
                counts[kind] = counts.get(kind, 0) + one["count_all"]
            _sample(batch, samples)
    except (OSError, pa.ArrowInvalid) as why:
        raise TableError(f"a file of {path} does not read ({why}): restore it first") from why
    ordered = sorted(counts, key=lambda kind: (-counts[kind], kind))
    # One of each kind first, then the second ones, and so on.
    rounds = (
        samples[kind][n] for n in range(SAMPLES_MAX) for kind in ordered if n < len(samples[kind])
    )
    shown = [one for _, one in zip(range(SAMPLES_MAX), rounds, strict=False)]
    return Reasons([(*kind, counts[kind]) for kind in ordered], shown)


def _sample(batch: pa.RecordBatch, samples: dict[tuple[str, str], list[Sample]]) -> None:
    """Takes rows of the batch whose kind has fewer samples than the page can show."""
    kinds = zip(batch["topic"].to_pylist(), batch["reason"].to_pylist(), strict=True)
    for at, (topic, reason) in enumerate(kinds):
        held = samples.setdefault((str(topic), str(reason)), [])
        if len(held) < SAMPLES_MAX:
            row = batch.slice(at, 1).to_pylist()[0]
            held.append(
                Sample(
                    topic=str(topic),
                    partition=row["partition"],
                    offset=row["offset"],
                    reason=str(reason),
                    detail=str(row["detail"] or ""),
                    value=_shown(row["value"]),
                )
            )


def _shown(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value[: 4 * VALUE_MAX].decode(errors="replace")
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 1] + "…"
