from typing import Any

from strandline_proto.decompression import Buffer

def walk(
    data: Buffer,
    at: int,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    /,
) -> tuple[int, int, int, int]: ...
def rows(
    data: Buffer,
    batches: Any,
    start: int,
    stop: int,
    marks: Any,
    nulls: Any,
    offsets: Any,
    timestamps: Any,
    batch_of: Any,
    headers: Any,
    /,
) -> tuple[int, int]: ...
def headers(data: Buffer, places: Any, marks: Any, nulls: Any, /) -> int: ...
