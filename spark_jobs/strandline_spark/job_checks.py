"""What a bronze job is asked for before its table is made."""

from __future__ import annotations

import os

from strandline_spark.errors import OptionError


def check_apart(table: str, checkpoint: str) -> None:
    """Raises OptionError if one is in the other: they would be each other's files."""
    folders = [os.path.realpath(path) for path in (table, checkpoint)]
    if os.path.commonpath(folders) in folders:
        raise OptionError(
            f"--checkpoint {checkpoint!r} and --table {table!r} are one folder, or one is in the"
            " other; give each a folder of its own"
        )
