"""The settings of the jobs' Spark session."""

import pytest

from strandline_spark.session import with_task_failures


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_lets_a_task_fail_unless_it_says_otherwise(given: str, used: str) -> None:
    assert with_task_failures(given) == used
