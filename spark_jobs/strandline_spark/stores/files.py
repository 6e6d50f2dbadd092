"""The files of tables, wherever these are. Every function takes a path or an address."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import fs

from strandline_spark.stores import objects
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def is_folder(path: str) -> bool:
    return objects.is_folder(path) if is_remote(path) else os.path.isdir(path)


def is_file(path: str) -> bool:
    return objects.exists(path) if is_remote(path) else os.path.isfile(path)


def exists(path: str) -> bool:
    return is_file(path) or is_folder(path) if is_remote(path) else os.path.lexists(path)


def names(folder: str, after: str | None = None) -> list[str]:
    """Returns the names in a folder; an object store leaves out those up to `after`. Raises
    FileNotFoundError and OSError.
    """
    return objects.names(folder, after) if is_remote(folder) else os.listdir(folder)


def below(folder: str) -> Iterator[str]:
    """Yields the files in a folder and in its folders, with `/` between the names."""
    if is_remote(folder):
        yield from objects.below(folder)
        return
    for found, _, names_ in os.walk(folder):
        inner = os.path.relpath(found, folder).replace(os.sep, "/")
        yield from names_ if inner == "." else (f"{inner}/{name}" for name in names_)


def size(path: str) -> int:
    return objects.size(path) if is_remote(path) else os.path.getsize(path)


def mark(path: str) -> tuple[object, int, int]:
    """Returns what changes when another file takes the place: identity, time in ns, and size."""
    if is_remote(path):
        return objects.mark(path)
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size


def marks(root: str, paths: Sequence[str]) -> tuple[list[int], list[int]]:
    """Returns size and time of change, in ns, of each file under the root. Raises
    FileNotFoundError.
    """
    if is_remote(root):
        return objects.marks(root, paths)
    found = [os.stat(f"{root}/{path}") for path in paths]
    return [one.st_size for one in found], [one.st_mtime_ns for one in found]


def fingerprints(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Returns a text for each of the small files that exist, which changes with its content. It is
    empty for a file that does not read.
    """
    if is_remote(folder):
        return objects.fingerprints(folder, names)
    out = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            out[name] = _fingerprint(f"{folder}/{name}")
    return out


def _fingerprint(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return hashlib.blake2b(file.readall(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise
    except OSError:
        return ""


def modified_s(path: str) -> float:
    """Returns the time of the last change, in seconds since 1970."""
    return mark(path)[1] / 1_000_000_000


def read_text(path: str) -> str:
    """Raises FileNotFoundError, OSError and UnicodeDecodeError."""
    if is_remote(path):
        return objects.read(path).decode("utf-8")
    with open(path, encoding="utf-8") as file:
        return file.read()


def lines(path: str) -> Iterator[str]:
    """Yields the lines of a text. Raises as `read_text`."""
    if is_remote(path):
        yield from objects.read(path).decode("utf-8").splitlines()
        return
    with open(path, encoding="utf-8") as file:
        yield from file


def write_over(path: str, text: str) -> None:
    """Writes a file durably in place of the last one. Its name is not synced."""
    if is_remote(path):
        objects.write_over(path, text.encode("utf-8"))
        return
    with replacing(path) as draft, open(draft, "x", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yields the path of a draft that takes the place when the block ends, synced. The block of a
    local path writes the draft; no draft is left.
    """
    from strandline_spark.stores.durable import sync

    make_folder(os.path.dirname(path))
    draft = f"{path}.{os.urandom(8).hex()}.tmp"
    try:
        yield draft
        sync(draft)
        os.replace(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def make_folder(path: str) -> None:
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)


def remove(path: str) -> None:
    """Removes a file. Raises FileNotFoundError if there is none."""
    if is_remote(path):
        objects.remove(path)
    else:
        os.unlink(path)


def remove_tree(path: str) -> None:
    if is_remote(path):
        objects.remove_tree(path)
    else:
        shutil.rmtree(path)


def parquet(path: str, **options: Any) -> Any:
    """Returns the file as a ParquetFile. Raises OSError and Arrow's errors."""
    return pq.ParquetFile(objects.reader(path) if is_remote(path) else path, **options)


def footer(path: str) -> Any:
    return parquet(path).metadata if is_remote(path) else pq.read_metadata(path)


def parquet_writer(path: str, schema: Any, **options: Any) -> Any:
    """Returns a ParquetWriter. An object appears when it is closed."""
    if is_remote(path):
        return _ObjectWriter(path, schema, **options)
    return pq.ParquetWriter(path, schema, **options)


def write_parquet(rows: Any, path: str, **options: Any) -> None:
    if not is_remote(path):
        pq.write_table(rows, path, **options)
        return
    with objects.writer(path) as sink:
        pq.write_table(rows, sink, **options)


def replace_parquet(rows: Any, path: str, **options: Any) -> None:
    """Writes a file durably in place of the last one. Its name is not synced."""
    if is_remote(path):
        write_parquet(rows, path, **options)
        return
    with replacing(path) as draft:
        pq.write_table(rows, draft, **options)


def file_system(path: str) -> Any:
    """Returns the file system for a dataset of delta-rs in which paths begin at the folder; None
    for delta-rs' own, which reads an object store.

    The latter consists of Python objects. After a scan failed at a damaged file, Arrow's threads
    still hold them. A process that ends at that moment dies by a signal or hangs.
    """
    if is_remote(path):
        return None
    return fs.SubTreeFileSystem(os.path.abspath(path), fs.LocalFileSystem())


def fetch(path: str, target: str) -> None:
    """Makes a file of this machine at `target` that has the content: a link, or a copy."""
    if not is_remote(path):
        os.symlink(os.path.abspath(path), target)
        return
    with objects.reader(path) as source, open(target, "xb") as file:
        while content := source.read(1 << 20):
            file.write(content)


class _ObjectWriter(pq.ParquetWriter):  # type: ignore[misc]
    def __init__(self, path: str, schema: Any, **options: Any) -> None:
        self._sink = objects.writer(path)
        super().__init__(self._sink, schema, **options)

    def close(self) -> None:
        super().close()
        self._sink.close()
