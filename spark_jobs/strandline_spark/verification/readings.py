"""The readings of tables by one verification, so that its parts do not read a table twice."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from strandline_spark.verification import accounts
from strandline_spark.verification.runs import TopicRuns

if TYPE_CHECKING:
    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.verification.accounts import Accounts


class Reading:
    """The content of one table at one version, as far as it was read."""

    def __init__(self, table: FencedTable, *, full: bool) -> None:
        self.table = table
        self._full = full
        self._runs: dict[str, TopicRuns] = {}

    @cached_property
    def accounts(self) -> Accounts:
        """The accounts of all topics. Raises TableError."""
        return accounts.read(self.table, full=self._full)

    def runs(self, topic: str) -> TopicRuns:
        """Returns the runs of a topic. Raises TableError for a file that is missing or does not
        read.
        """
        found = self._runs.get(topic)
        if found is None:
            found = self._runs[topic] = TopicRuns(self.table, topic, full=self._full)
        return found


class Readings:
    """The tables that a verification has read."""

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._of: dict[str, Reading] = {}

    def of(self, table: FencedTable) -> Reading:
        """Returns what was read of the table at its version, or is to be read."""
        known = self._of.get(table.path)
        place = table.id, table.version
        if known is None or (known.table.id, known.table.version) != place:
            known = self._of[table.path] = Reading(table, full=self._full)
        return known
