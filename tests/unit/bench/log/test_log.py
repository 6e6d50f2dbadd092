"""`strandline bench log`: every part measures what it says, on a log small enough for a test."""

import json

import pytest

from strandline_bench.log.options import PARTS, parse
from strandline_bench.main import run


def measured(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, dict[str, object]]:
    assert run(["log", "--json", "--rounds", "1", "--round-mb", "2", *map(str, argv)]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line.pop("measure"): line for line in lines}


def test_appends_and_reads_are_compared_with_the_bare_functions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = measured(capsys, "--only", "append,read")
    assert found["environment"]["only"] == "append,read"
    for part in ("append", "read"):
        for size in ("4k", "64k", "1m"):
            figures = found[f"log-{part}-{size}"]
            assert {f"{part}_mb_s", "bare_mb_s", "bare_share", "cpu_us_batch"} <= set(figures)


def test_recovery_is_timed_after_a_stop_and_after_a_crash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = measured(capsys, "--only", "recovery", "--recovery-gb", "0.01", "--partitions", 3)
    assert {"clean_s", "crash_s", "crash_without_recovery_point_s"} <= set(found["log-recovery"])
    assert found["log-recovery-partitions"]["segments"] == 9


def test_lookups_are_timed_in_as_many_segments_as_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = measured(capsys, "--only", "lookup", "--segments", 3)
    assert found["log-lookup"]["segments"] == 3
    assert {"offset_p99_us", "time_p99_us"} <= set(found["log-lookup"])


def test_a_compaction_leaves_the_live_keys_and_says_what_memory_it_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = measured(capsys, "--only", "compaction", "--records", 5000)["log-compaction"]
    assert found["keys"] == 500
    assert found["records"] == 5000
    sizes = found["cleaned_log_mb"], found["log_mb"]
    assert isinstance(sizes[0], float)
    assert isinstance(sizes[1], float)
    assert sizes[0] < 0.3 * sizes[1]
    assert {"records_s", "memory_over_base_mb"} <= set(found)


def test_all_parts_are_measured_unless_some_are_named() -> None:
    assert parse([]).only == PARTS
    assert parse(["--only", "read, append"]).only == ("append", "read")


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--only", "speed"], "is none of append"),
        (["--rounds", "0"], "below 1"),
        (["--live-share", "2"], "no share"),
        (["--recovery-gb", "0"], "not between"),
        (["--dir", "/nowhere/at/all"], "no directory"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_the_reason(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(argv)
    assert refused.value.code == 2
    assert complaint in capsys.readouterr().err
