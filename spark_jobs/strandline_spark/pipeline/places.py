"""The places that a pipeline's file names: tables in folders or in an object store, a checkpoint in
a folder of this machine.
"""

from __future__ import annotations

import os
from typing import Final

from strandline_spark.errors import OptionError
from strandline_spark.source.local_files import not_of_a_path, not_of_a_table
from strandline_spark.stores.paths import has_scheme, is_remote, joined, not_an_address

CHECKPOINT: Final = "[pipeline] checkpoint"


class Places:
    """The file's folder, and the pipeline's directory below which tables are that have no place of
    their own.
    """

    def __init__(self, folder: str, directory: str) -> None:
        if directory.rstrip("/").count("/") > 2 or not is_remote(directory):  # a bucket is one too
            check_place("[pipeline] directory", directory)
        self._folder = folder
        self._root = joined(folder, directory)

    def of(self, where: str, given: str | None, default: str) -> str:
        """Returns an absolute place: `default` is below the pipeline's directory, `given` below the
        file's folder. Raises OptionError.
        """
        path = joined(self._root, default) if given is None else joined(self._folder, given)
        if where == CHECKPOINT and is_remote(path):
            raise OptionError(
                f"{where} {'is missing' if given is None else f'= {given!r}'}: Spark's checkpoint"
                " cannot be in an object store; name a folder that lasts as long as the tables"
            )
        if given is not None:
            check_place(where, given)
        found = not_of_a_path(path) if where == CHECKPOINT else not_of_a_table(path)
        if found is not None:
            raise OptionError(
                f"{where} is the folder {path!r}: there can be no {found!r} in its path; rename the"
                " folder that has it in its name, or name another"
            )
        return path


def check_place(where: str, given: str) -> None:
    """Raises OptionError for an address of another kind of store, or one that is not whole."""
    if is_remote(given):
        if (why := not_an_address(given)) is not None:
            raise OptionError(f"{where} = {given!r}: {why}")
    elif has_scheme(given) or "://" in given:
        raise OptionError(
            f"{where} = {given!r}: tables lie in folders of this machine or at s3://BUCKET/FOLDER,"
            " checkpoints in folders"
        )


def beside(path: str, name: str) -> str:
    """Returns the place of that name in the same folder."""
    return os.path.join(os.path.dirname(path), name)
