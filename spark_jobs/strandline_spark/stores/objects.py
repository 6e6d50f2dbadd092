"""The objects of an S3 store as files: what `files.py` does for addresses.

An object appears whole or not at all, and is durable when it was written. There are no folders and
no renames. An entry of a table's log is made by a conditional write: `If-None-Match: *` makes the
store refuse the second of two. A store that ignores the condition is found out before the first
commit of a process.
"""

from __future__ import annotations

import contextlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import EnvironmentProblem, first_line
from strandline_spark.stores import options
from strandline_spark.stores.paths import SCHEME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from obstore.store import S3Store

_REQUEST: Final = "30s"
_CONNECT: Final = "10s"
_RETRIES: Final = 8
_RETRY: Final = timedelta(seconds=60)
_PART: Final = 8 << 20
_AT_ONCE: Final = 1000
"""Objects that one request removes."""
_COPIES: Final = 16
"""Copies that are under way at a time."""
_stores: dict[tuple[str, str, int], S3Store] = {}
"""By process too: a worker that was forked has connections of its own."""
_conditional: set[tuple[str, str]] = set()
"""Stores and buckets that this process knows to keep to the condition of a write."""


def exists(address: str) -> bool:
    try:
        _head(address)
    except FileNotFoundError:
        return False
    return True


def is_folder(address: str) -> bool:
    """True if there is an object below the address."""
    store, key = _at(address)
    with told(address):
        first: Any = next(iter(_obstore().list(store, prefix=f"{key}/", chunk_size=1)), [])
        return len(first) > 0


def names(address: str, after: str | None) -> list[str]:
    """Returns the names in the folder, those of folders too; of objects only those greater than
    `after`. Raises FileNotFoundError without any.
    """
    store, key = _at(address)
    with told(address):
        if after is None:
            found: Any = _obstore().list_with_delimiter(store, prefix=f"{key}/")
            paths = [one["path"] for one in found["objects"]] + list(found["common_prefixes"])
        else:
            chunks: Any = _obstore().list(store, prefix=f"{key}/", offset=f"{key}/{after}")
            paths = [one["path"] for chunk in chunks for one in chunk]
    below = [path.removeprefix(f"{key}/") for path in paths]
    if not below and after is None:
        raise FileNotFoundError(f"{address}: no such folder")
    return [name.rstrip("/") for name in below if "/" not in name.rstrip("/")]


def below(address: str) -> list[str]:
    """Returns the objects below the address, by the rest of their names."""
    store, key = _at(address)
    with told(address):
        chunks: Any = _obstore().list(store, prefix=f"{key}/")
        return [one["path"].removeprefix(f"{key}/") for chunk in chunks for one in chunk]


def size(address: str) -> int:
    return int(_head(address)["size"])


def mark(address: str) -> tuple[str, int, int]:
    """Returns what changes with the object: its tag, the time of its writing, and its size."""
    found = _head(address)
    return str(found["e_tag"]), _written_ns(found), int(found["size"])


def _written_ns(state: Any) -> int:
    return int(state["last_modified"].timestamp() * 1_000_000_000)


def marks(root: str, paths: Sequence[str]) -> tuple[list[int], list[int]]:
    """Returns size and time of writing of each object below the root. It lists their folders, a
    request for each thousand. Raises FileNotFoundError.
    """
    found: dict[str, Any] = {}
    for folder in sorted({os.path.dirname(path) for path in paths}):
        inner = f"{folder}/" if folder else ""
        for name, one in _listed(f"{root}/{folder}".rstrip("/")):
            found[inner + name] = one
    lacking = [path for path in paths if path not in found]
    if lacking:
        raise FileNotFoundError(f"{root}/{lacking[0]}: no such object, or no such bucket")
    states = [found[path] for path in paths]
    return [int(one["size"]) for one in states], [_written_ns(one) for one in states]


def fingerprints(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Returns a text for each of the objects that exist, which changes with its content: its tag,
    time and size, of which the store makes the tag of the content.
    """
    found = dict(_listed(folder))
    return {
        name: f"{one['e_tag']} {_written_ns(one)} {one['size']}"
        for name in names
        if (one := found.get(name)) is not None
    }


def _listed(folder: str) -> Iterator[tuple[str, Any]]:
    """Yields the rest of the name, and the state, of each object below the folder."""
    store, key = _at(folder)
    with told(folder):
        chunks: Any = _obstore().list(store, prefix=f"{key}/")
        for chunk in chunks:
            yield from ((one["path"].removeprefix(f"{key}/"), one) for one in chunk)


def read(address: str) -> bytes:
    store, key = _at(address)
    with told(address):
        return bytes(_obstore().get(store, key).bytes())


def write_new(address: str, content: bytes) -> None:
    """Writes a new object. Raises FileExistsError if there is one of another content."""
    check_conditional(address)
    if not _made(address, content) and read(address) != content:
        raise FileExistsError(f"{address} exists")


def write_over(address: str, content: bytes) -> None:
    store, key = _at(address)
    with told(address):
        _obstore().put(store, key, content)


def remove(address: str) -> None:
    """Removes an object. Raises FileNotFoundError if there is none."""
    _head(address)
    store, key = _at(address)
    with told(address):
        _obstore().delete(store, key)


def remove_tree(address: str) -> None:
    """Removes the objects below the address: those of the log first, so that no table without its
    files can be opened.
    """
    store, key = _at(address)
    with told(address):
        chunks: Any = _obstore().list(store, prefix=f"{key}/")
        paths = [one["path"] for chunk in chunks for one in chunk]
        logs = [path for path in paths if path.startswith(f"{key}/_delta_log/")]
        # The first entries go first: a log without them is no table.
        for some in (sorted(logs), [path for path in paths if path not in set(logs)]):
            for start in range(0, len(some), _AT_ONCE):
                _obstore().delete(store, some[start : start + _AT_ONCE])


def remove_newest_first(address: str, log: str) -> None:
    """Removes the objects below the address: first those of the table's log, from the last name
    down, so that the log is that of an earlier version until none is left.
    """
    inner = sorted((name for name in below(address) if name.startswith(f"{log}/")), reverse=True)
    store, key = _at(address)
    for some in (inner, [name for name in below(address) if not name.startswith(f"{log}/")]):
        for start in range(0, len(some), _AT_ONCE):
            with told(address):
                _obstore().delete(store, [f"{key}/{one}" for one in some[start : start + _AT_ONCE]])


def copy_tree(address: str, target: str) -> None:
    """Copies the objects below the address, within the store."""
    (store, key), (_, to) = _at(address), _at(target)

    def copy(name: str) -> None:
        with told(f"{target}/{name}"):
            _obstore().copy(store, f"{key}/{name}", f"{to}/{name}")

    with ThreadPoolExecutor(_COPIES) as pool:
        list(pool.map(copy, below(address)))


def reader(address: str) -> io.RawIOBase:
    store, key = _at(address)
    with told(address):
        return _Source(_obstore().open_reader(store, key), address)


def writer(address: str) -> io.RawIOBase:
    """Returns a file whose object appears when it is closed."""
    store, key = _at(address)
    with told(address):
        return _Sink(_obstore().open_writer(store, key, buffer_size=_PART), address)


def check_conditional(address: str) -> None:
    """Raises EnvironmentProblem for a store that ignores the condition of a write."""
    bucket = _split(address)[0]
    place = os.environ.get("AWS_ENDPOINT_URL", ""), bucket
    if place in _conditional:
        return
    probe = f"{address}.{os.urandom(8).hex()}.probe"
    try:
        if not _made(probe, b"1") or _made(probe, b"2"):
            raise EnvironmentProblem(
                f"the store of s3://{bucket} ignores the condition of a write (If-None-Match), so"
                " two writers could both make an entry of a table's log: use a store that keeps to"
                " it, as Amazon S3 and MinIO do"
            )
    finally:
        with contextlib.suppress(OSError):
            remove(probe)
    _conditional.add(place)


@contextlib.contextmanager
def told(address: str) -> Iterator[None]:
    """Raises the store's errors as OSError, on one line and without a secret."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as why:
        raise FileNotFoundError(f"{address}: no such object, or no such bucket") from why
    except BaseError as why:
        raise OSError(f"{address}: {first_line(why)}") from why


class _Source(io.RawIOBase):
    def __init__(self, opened: Any, address: str) -> None:
        self._opened = opened
        self._address = address

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        with told(self._address):
            return bytes(self._opened.read(size) if size >= 0 else self._opened.readall())

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        return int(self._opened.tell())


class _Sink(io.RawIOBase):
    def __init__(self, opened: Any, address: str) -> None:
        self._opened = opened
        self._address = address

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        with told(self._address):
            return int(self._opened.write(content))

    def close(self) -> None:
        if not self.closed:
            super().close()
            with told(self._address):
                self._opened.close()


def _made(address: str, content: bytes) -> bool:
    """Writes the object if there is none; False if there is one."""
    from obstore.exceptions import AlreadyExistsError

    store, key = _at(address)
    with told(address):
        try:
            _obstore().put(store, key, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
    return True


def _head(address: str) -> Any:
    store, key = _at(address)
    with told(address):
        return _obstore().head(store, key)


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix(SCHEME).partition("/")
    return bucket, key.rstrip("/")


def _at(address: str) -> tuple[S3Store, str]:
    bucket, key = _split(address)
    place = os.environ.get("AWS_ENDPOINT_URL", ""), bucket, os.getpid()
    found = _stores.get(place)
    if found is None:
        found = _stores[place] = _opened(bucket)
    return found, key


def _opened(bucket: str) -> S3Store:
    options.check()
    _obstore()
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    try:
        return S3Store(
            bucket,
            client_options={
                "timeout": _REQUEST,
                "connect_timeout": _CONNECT,
                "allow_http": options.is_set("AWS_ALLOW_HTTP"),
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY},
        )
    except BaseError as why:
        raise EnvironmentProblem(
            f"s3://{bucket} cannot be used ({first_line(why)}): see the environment variables AWS_…"
        ) from why


def _obstore() -> Any:
    try:
        import obstore
    except ImportError as why:
        raise EnvironmentProblem(
            "s3:// needs the package obstore: pip install 'strandline[spark,objects]'"
        ) from why
    return obstore
