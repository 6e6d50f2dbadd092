"""The identity of a data directory: `meta.properties`, in Kafka's format (version 1: node.id,
directory.id, cluster.id).

A controller's directory also has `store.id`, the identity of the store in its metadata log (P-76).

A changed bit of an id reads as another id. With a wrong cluster id, a controller ends every broker
that asks it. A seal therefore stands beside the file (`sealed_file`), and content that it does not
list is refused. A file without a seal is trusted: Kafka, or an earlier version, wrote it.
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
    """The properties; None if there is no file. Raises ValueError if it does not parse, or differs
    from what was written.
    """
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
    file.read(lambda _: None)  # the seal continues to list what a crash may leave there
    file.replace("\n".join([*lines, ""]).encode("utf-8"))


def seal_meta_properties(fs: FileSystem, directory: str) -> None:
    seal_if_none(fs, f"{directory}/{FILE_NAME}")


def new_directory_id(new_id: Callable[[], bytes]) -> str:
    """A random id that no command line can mistake for an option."""
    while True:
        text = topic_id_text(new_id())
        if not text.startswith("-"):
            return text
