"""The contents of a replica's files, whether its broker runs or not: the demo compares logs on
disk.
"""

from pathlib import Path

from strandline_proto.batch import iter_headers, read_records


def values_on_disk(data_directory: Path, topic: str, partition: int) -> dict[int, str]:
    """The value at each offset, of every whole batch in the partition's segments."""
    values: dict[int, str] = {}
    for segment in sorted((data_directory / f"{topic}-{partition}").glob("*.log")):
        data = segment.read_bytes()
        for at, header in iter_headers(data):
            for record in read_records(data, at, header):
                values[record.offset] = (record.value or b"").decode(errors="replace")
    return values


def checkpointed_watermark(data_directory: Path, topic: str, partition: int) -> int:
    """The high watermark that the replica would start with; -1 if none was written yet."""
    try:
        lines = (data_directory / "replication-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return -1
    for line in lines[2:]:
        name, number, offset = line.split(" ")
        if (name, int(number)) == (topic, partition):
            return int(offset)
    return -1
