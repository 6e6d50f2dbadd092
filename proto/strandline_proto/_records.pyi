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
