"""The settings of the jobs' Spark session."""

import pytest

from strandline_spark.session import _configuration, warn_of_slow_walks, with_task_failures


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


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_no_jvm_checks_arrow_values_once_more(master: str, direct: bool) -> None:
    settings = _configuration(master, "1g", direct=direct, worker_python="python")
    of = "driver" if master.startswith("local") else "executor"
    options = settings[f"spark.{of}.extraJavaOptions"].split()
    assert "-Darrow.enable_unsafe_memory_access=true" in options
    assert "-Darrow.enable_null_check_for_get=false" in options
    assert ("-XX:+UseSerialGC" in options) == direct


def test_workers_of_a_cluster_keep_their_memory_as_local_ones_do() -> None:
    settings = _configuration("spark://host:7077", "1g", direct=True, worker_python="python")
    given = {name: value for name, value in settings.items() if ".executorEnv.MALLOC" in name}
    assert given == {
        "spark.executorEnv.MALLOC_ARENA_MAX": "1",
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "67108864",
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "268435456",
    }


@pytest.mark.parametrize("is_compiled", [True, False])
def test_who_finds_records_in_python_is_told(
    is_compiled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_slow_walks(is_compiled=is_compiled)
    told = ["install a C compiler" in message for message in caplog.messages]
    assert told == ([] if is_compiled else [True])
