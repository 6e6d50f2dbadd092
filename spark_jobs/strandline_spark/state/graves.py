"""The deleted keys of a step with order columns: an older row of such a key may still come, and
must not bring it back.

They lie in a file beside the table's own, which only the account of the newest commit names.
Readers of the table do not see them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.errors import TableError, first_line
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync, sync_names

if TYPE_CHECKING:
    from collections.abc import Collection

FOLDER: Final = "_deleted"
"""Delta's vacuum leaves folders with such a name alone."""


def read(table: str, name: str | None, again: str) -> Any | None:
    """Returns the deleted keys and their places; None if there are none."""
    if name is None:
        return None
    file = os.path.join(table, name)
    try:
        return files.parquet(file).read()
    except (OSError, pa.ArrowInvalid) as why:
        raise TableError(
            f"the file {file} does not read ({first_line(why)}): put it back from a copy, or"
            f" {again}"
        ) from why


def write(table: str, graves: Any) -> str | None:
    """Writes a new file of deleted keys and syncs it. Returns its name under the table's folder."""
    if graves.num_rows == 0:
        return None
    name = f"{FOLDER}/{os.urandom(12).hex()}.parquet"
    file = os.path.join(table, name)
    files.make_folder(os.path.dirname(file))
    files.write_parquet(graves, file, compression="zstd")
    sync(file)
    sync_names(file, table)
    return name


def clean(table: str, kept: Collection[str | None]) -> None:
    """Removes the files of earlier commits."""
    folder = os.path.join(table, FOLDER)
    if not files.is_folder(folder):
        return
    for name in files.names(folder):
        if f"{FOLDER}/{name}" not in kept:
            files.remove(os.path.join(folder, name))
