"""`meta.properties`: whose data directory this is, in Kafka's format (version 1: node.id,
directory.id, cluster.id).

A controller's directory also has `store.id`, the identity of the store that its metadata log is
(P-76).

A changed bit of an id reads as another id: a controller of another cluster ends every broker that
asks it. So a seal stands beside the file (`sealed_file`), and what that does not name does not
read. A file without a seal is believed: Kafka, or an earlier version, wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import natural
from strandline_broker.storage.files.sealed_file import SealedFile, read_sealed, seal_if_none
from strandline_proto.ids import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = "meta.properties"
VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    node_id: int
    directory_id: str
    cluster_id: str | None = None
    store_id: str | None = None


def read_meta_properties(fs: FileSystem, directory: str) -> MetaProperties | None:
    """None if there is no such file; ValueError if it does not read, or is not what was written."""
    try:
        text = read_sealed(fs, f"{directory}/{FILE_NAME}").decode("utf-8")
    except FileNotFoundError:
        return None
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith(("#", "!")):
            found[key.strip()] = value.strip()
    if found.get("version") != VERSION:
        raise ValueError(f"version {found.get('version')} where {VERSION} is expected")
    for key in ("node.id", "directory.id"):
        if not found.get(key):
            raise ValueError(f"{key} is missing")
    return MetaProperties(
        node_id=natural(found["node.id"]),
        directory_id=found["directory.id"],
        cluster_id=found.get("cluster.id") or None,
        store_id=found.get("store.id") or None,
    )


def write_meta_properties(fs: FileSystem, directory: str, meta: MetaProperties) -> None:
    lines = [f"node.id={meta.node_id}", f"directory.id={meta.directory_id}", f"version={VERSION}"]
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    if meta.store_id is not None:
        lines.append(f"store.id={meta.store_id}")
    file = SealedFile(fs, f"{directory}/{FILE_NAME}")
    file.read(lambda _: None)  # its seal goes on to name what a crash may leave there
    file.replace("\n".join([*lines, ""]).encode("utf-8"))


def seal_meta_properties(fs: FileSystem, directory: str) -> None:
    seal_if_none(fs, f"{directory}/{FILE_NAME}")


def new_directory_id(new_id: Callable[[], bytes]) -> str:
    """Random, and not to be taken for an option on a command line."""
    while True:
        text = topic_id_text(new_id())
        if not text.startswith("-"):
            return text
