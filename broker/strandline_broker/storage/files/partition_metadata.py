"""The topic id of a partition's directory: `partition.metadata`, in Kafka's format (I-36, P-19).

A changed bit of the id reads as another id, so a seal stands beside the file (`sealed_file`). A
file that its seal does not list is refused. One without a seal is trusted: Kafka, or an earlier
version, wrote it. It gets a seal when its log is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from strandline_broker.storage.files.sealed_file import (
    SealedFile,
    named_if_any,
    read_sealed,
    seal_if_none,
)
from strandline_broker.storage.files.steps import in_a_row
from strandline_proto.ids import topic_id_bytes, topic_id_text

if TYPE_CHECKING:
    from strandline_broker.storage.files.steps import Steps
    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = "partition.metadata"


def read_partition_metadata(fs: FileSystem, directory: str) -> bytes | None:
    """The topic id; None if there is no file. Raises ValueError if it does not parse, or differs
    from what was written.
    """
    path = f"{directory}/{FILE_NAME}"
    try:
        data = read_sealed(fs, path)
    except FileNotFoundError:
        return None
    lines = data.decode("utf-8").splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("it has no version 0 and topic_id")
    return topic_id_bytes(fields["topic_id"].strip())


def write_partition_metadata(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    in_a_row(writing_partition_metadata(fs, directory, topic_id))


def writing_partition_metadata(fs: FileSystem, directory: str, topic_id: bytes) -> Steps[None]:
    """Write the file, in the steps of `replacing_files`."""
    return SealedFile(fs, f"{directory}/{FILE_NAME}").replacing(_content(topic_id))


def seal_partition_metadata(fs: FileSystem, directory: str) -> None:
    seal_if_none(fs, f"{directory}/{FILE_NAME}")


def sealed_as(fs: FileSystem, directory: str, topic_id: bytes) -> bool | None:
    """True if the seal lists the content for that topic id; None if there is no seal that
    parses.
    """
    named = named_if_any(fs, f"{directory}/{FILE_NAME}")
    if named is None:
        return None
    return crc32c(_content(topic_id)) in named


def _content(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {topic_id_text(topic_id)}".encode("ascii")
