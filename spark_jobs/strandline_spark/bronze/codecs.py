"""The choice of the columns of a Parquet file that are worth compressing. Random or compressed
values take a microsecond for each KB and do not shrink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE_BYTES: Final = 64 << 10
"""Size of the sample: the first values of a column."""
SAMPLE_BYTES_MIN: Final = 4 << 10
"""Minimum size of a sample; a smaller one decides nothing."""
LARGEST_SHARE: Final = 0.9
"""Largest ratio of compressed to plain size at which compression is worth it."""
_NONE: Final = "none"


def codec_of_each(table: Any, codec: str) -> dict[str, str]:
    """Returns `codec`, or none, for each leaf of the table's columns, by its path in Parquet."""
    found: dict[str, str] = {}
    for field in table.schema:
        chosen = codec if _packs(table.column(field.name), codec) else _NONE
        found |= dict.fromkeys(_leaves(field.name, field.type), chosen)
    return found


def _packs(column: Any, codec: str) -> bool:
    sample = _first_bytes(column)
    if sample is None or sample.size < SAMPLE_BYTES_MIN:
        return True
    packed = pa.Codec(codec).compress(sample)
    return bool(packed.size <= LARGEST_SHARE * sample.size)


def _first_bytes(column: Any) -> Any:
    """Returns the first values of a column; None if its values have no bytes of their own."""
    kind = column.type
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind)) or column.num_chunks == 0:
        return None
    values = column.chunk(0)
    _, offsets, data = values.buffers()
    if data is None:
        return None
    ends = np.frombuffer(offsets, np.int32)
    first, last = int(ends[values.offset]), int(ends[values.offset + len(values)])
    return data.slice(first, min(SAMPLE_BYTES, last - first))


def _leaves(path: str, kind: Any) -> Iterator[str]:
    if pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield f"{path}.key_value.key"
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for part in kind:
            yield from _leaves(f"{path}.{part.name}", part.type)
    else:
        yield path
