"""Names that a field may give to a column of silver."""

from __future__ import annotations

import pytest

from strandline_spark.silver.names import objection
from strandline_spark.silver.tables import silver_file_schema


def test_a_name_of_its_own_is_free() -> None:
    for name in ("n", "user-id", "@version", "é", "window"):
        assert objection(name, ["m"]) is None


@pytest.mark.parametrize("name", ["", " ", "a b", "a,b", "a=b", "a\tb", "a\x00", "(a)"])
def test_a_name_that_no_table_can_have_is_refused(name: str) -> None:
    assert objection(name, []) == f"a table cannot have a column named {name!r}"


def test_a_name_that_is_taken_is_refused_in_capitals_too() -> None:
    assert "the table has a column n already" in str(objection("N", ["m", "n"]))
    assert objection("Window_End", []) == "gold steps add a column window_end"
    for own in ("topic", "ingest_date", *silver_file_schema({}).names):
        assert f"the table has a column {own} already" in str(objection(own.upper(), []))
