"""The paths of a table's files with their topics, in columns, as the log has them.

The newest checkpoint is read in columns, without statistics. The entries behind it are read one by
one, and are few. So a list of a million files costs a second.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.delta_log.entries import LOG, LogError, checkpoint_path, read_entry
from strandline_spark.errors import first_line
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.delta_log.entries import Action
    from strandline_spark.delta_log.table_log import Snapshot

_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True, eq=False)
class FileList:
    """The files of one version of a table."""

    paths: Any
    """Path of each file under the table's folder."""
    topics: Any

    def of_topic(self, topic: str) -> Any:
        """Returns the paths of the topic's files."""
        return self.paths.filter(pc.equal(self.topics, topic))


def read(state: Snapshot) -> FileList:
    """Reads the list of a version. Raises LogError if the log does not read."""
    start = _newest_checkpoint(state)
    paths, topics = _of_checkpoint(state.path, start)
    later: dict[str, str | None] = {}
    gone: set[str] = set()
    for version in range(start + 1, state.version + 1):
        actions = read_entry(state.path, version)
        if actions is None:
            raise LogError(f"the log of {state.path} has lost the entry of version {version}")
        _take(state.path, version, actions, later, gone)
    if gone:
        is_left = pc.invert(pc.is_in(paths, value_set=pa.array(sorted(gone), pa.string())))
        paths, topics = paths.filter(is_left), topics.filter(is_left)
    return FileList(
        pa.concat_arrays([paths, pa.array(list(later), pa.string())]),
        pa.concat_arrays([topics, pa.array(list(later.values()), pa.string())]),
    )


def _newest_checkpoint(state: Snapshot) -> int:
    """Returns the newest version with a checkpoint; -1 without one."""
    names = files.names(os.path.join(state.path, LOG))
    versions = (int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name)))
    return max((one for one in versions if one <= state.version), default=-1)


def _of_checkpoint(table: str, version: int) -> tuple[Any, Any]:
    if version < 0:
        return pa.array([], pa.string()), pa.array([], pa.string())
    file = checkpoint_path(table, version)
    try:
        with files.parquet(file) as source:
            column = source.read(columns=["add.path", "add.partitionValues"]).column("add")
        added = column.drop_null().combine_chunks()
        paths = pc.struct_field(added, ["path"]).cast(pa.string())
        values = pc.struct_field(added, ["partitionValues"])
        topics = pc.map_lookup(values, _TOPIC, "first").cast(pa.string())
    except (OSError, KeyError, IndexError, pa.ArrowInvalid) as why:
        raise LogError(f"the checkpoint {file} does not read ({first_line(why)})") from why
    return _unquoted(paths), topics


def _unquoted(paths: Any) -> Any:
    quoted = pc.match_substring(paths, "%")
    if not pc.any(quoted).as_py():
        return paths
    plain = [unquote(one) for one in paths.filter(quoted).to_pylist()]
    return pc.replace_with_mask(paths, quoted, pa.array(plain, pa.string()))


def _take(
    table: str,
    version: int,
    actions: Sequence[Action],
    later: dict[str, str | None],
    gone: set[str],
) -> None:
    """Takes one entry. A file that it replaces leaves the table before the new ones come."""
    try:
        for one in actions:
            if "remove" in one:
                path = unquote(one["remove"]["path"])
                later.pop(path, None)
                gone.add(path)
        for one in actions:
            if "add" in one:
                path = unquote(one["add"]["path"])
                gone.add(path)
                later[path] = one["add"]["partitionValues"].get(_TOPIC)
    except (AttributeError, KeyError, TypeError) as why:
        raise LogError(
            f"version {version} of the log of {table} does not read ({type(why).__name__}: {why})"
        ) from why
