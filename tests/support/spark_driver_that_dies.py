"""A job as a process that kills itself, and its whole process group, at a chosen point.

    python spark_driver_that_dies.py POINT BATCH  ARGUMENTS OF strandline-spark...

POINT is `before-commit` (the files are written, the bronze table does not have them) or
`after-commit` (the table has the batch, Spark does not know). `gold-before-commit` is before the
commit number BATCH of a gold step: bronze, silver and quarantine have the batch already.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.commands.main import main
from strandline_spark.gold.table import GoldTable


def die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def arm_gold(number: int) -> None:
    commit = GoldTable.commit

    def dying_commit(table: Any, rows: Any, account: Any, *rest: Any) -> int:
        if account.number == number:
            die()
        return commit(table, rows, account, *rest)

    GoldTable.commit = dying_commit  # type: ignore[method-assign,assignment]


def arm(point: str, batch: int) -> None:
    if point == "gold-before-commit":
        arm_gold(batch)
        return
    commit = BronzeTable.commit

    def dying_commit(table: Any, app_id: str, batch_id: int, *rest: Any) -> None:
        if point == "before-commit" and batch_id == batch:
            die()
        commit(table, app_id, batch_id, *rest)
        if point == "after-commit" and batch_id == batch:
            die()

    BronzeTable.commit = dying_commit  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    arm(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:])
