"""A few files of a table as a Delta table of its own, for an engine that reads only whole tables.

The table lies in a temporary folder, with links to the files, or copies of objects. So opening it
costs as much as these files, whatever the size of the table that they belong to.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from deltalake import DeltaTable

from strandline_spark.delta_log.commit import SAFE
from strandline_spark.delta_log.entries import LOG, entry_path
from strandline_spark.stores import files
from strandline_spark.stores.paths import absolute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strandline_spark.delta_log.table_log import Snapshot


@contextlib.contextmanager
def excerpt(
    state: Snapshot, wanted: Mapping[str, Mapping[str, str | None]]
) -> Iterator[DeltaTable]:
    """Gives a table of these files, under the table's folder, each with its partition values. It
    has the columns of the table, and must not be written.
    """
    with tempfile.TemporaryDirectory(prefix="strandline-excerpt-") as folder:
        metadata = {**state.metadata, "configuration": {}}
        actions: list[dict[str, Any]] = [{"protocol": dict(state.protocol)}, {"metaData": metadata}]
        os.mkdir(os.path.join(folder, LOG))
        for number, (path, values) in enumerate(wanted.items()):
            name = f"{number}.parquet"
            source = os.path.join(absolute(state.path), path)
            files.fetch(source, os.path.join(folder, name))
            size = files.size(source) if files.is_file(source) else 0
            add = {"path": quote(name, safe=SAFE), "size": size, "partitionValues": dict(values)}
            actions.append({"add": {**add, "modificationTime": 0, "dataChange": True}})
        with open(entry_path(folder, 0), "x", encoding="utf-8") as file:
            file.write("".join(json.dumps(one) + "\n" for one in actions))
        yield DeltaTable(folder)
