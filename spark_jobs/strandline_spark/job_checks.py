"""What a bronze job is asked for before its table is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from strandline_spark.bronze import BronzeJob


def check_apart(table: str, checkpoint: str) -> None:
    """Raises OptionError if one is in the other: they would be each other's files."""
    folders = [os.path.realpath(path) for path in (table, checkpoint)]
    if os.path.commonpath(folders) in folders:
        raise OptionError(
            f"--checkpoint {checkpoint!r} and --table {table!r} are one folder, or one is in the"
            " other; give each a folder of its own"
        )


def make_checkpoint(job: BronzeJob) -> None:
    """Its folder and its log file. Raises OptionError if that cannot be."""
    try:
        os.makedirs(os.path.dirname(job.log_file), exist_ok=True)
        with open(job.log_file, "ab"):
            pass
    except OSError as why:
        raise OptionError(
            f"the checkpoint {job.checkpoint} cannot be written ({why}): give a folder of its own,"
            " where you may write"
        ) from why
