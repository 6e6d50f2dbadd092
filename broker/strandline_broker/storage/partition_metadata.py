"""`partition.metadata`: the topic id that a partition's directory belongs to, in Kafka's format
(I-36, P-19).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.atomic_file import replace_file
from strandline_broker.storage.file import read_whole
from strandline_proto.ids import topic_id_bytes, topic_id_text

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = "partition.metadata"


def read_partition_metadata(fs: FileSystem, directory: str) -> bytes | None:
    """The topic id; None if there is no such file; ValueError if it does not read."""
    try:
        lines = read_whole(fs, f"{directory}/{FILE_NAME}").decode("utf-8").splitlines()
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("it has no version 0 and topic_id")
    return topic_id_bytes(fields["topic_id"].strip())


def write_partition_metadata(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    replace_file(fs, f"{directory}/{FILE_NAME}", text.encode("utf-8"))
