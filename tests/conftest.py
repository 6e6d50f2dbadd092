"""What a test may need of the machine, and a loud word at the end about what could not run.

Markers `spark`, `maven`, `docker` and `browser` skip where a JDK, Maven, a Docker engine, Chromium
or the folder of shared data is missing. In CI that is a failure, except for want of the
shared folder (and of the engine that its script would have started): a green run must not hide what
was off.

Files of tests lie in memory where there is room, as what waits for a disk here waits for nothing
that a test looks at. TMPDIR says another place.
"""

import gc
import importlib
import os
import shutil
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from strandline_runtime.real import RealFileSystem
from support.examples import examples

SHARED = Path(__file__).resolve().parents[2] / "shared"
TESTS = Path(__file__).resolve().parent
PROOF = (TESTS / "proof", TESTS / "unit" / "proof")
"""The folders of the tests of what proves the product; each test has the marker `proof`."""
TURN = os.environ.get("TEST_PROOF_TURN", "")
"""`NUMBER/TURNS`: of the tests that strike again, this run has those of one turn. All if empty."""
LONGEST = (
    "integration/test_containers.py",
    "proof/test_sim_runs.py",
    "proof/test_small_model.py",
    "proof/test_sim_mutants.py",
    "proof/test_sim_command.py",
    "spark/sink/test_spark_sink.py",
    "spark/bronze/test_spark_bronze.py",
    "spark/spark/test_spark_random_kills.py",
    "spark/source/test_spark_source.py",
    "spark/source/test_spark_cluster.py",
    "spark/source/test_spark_losses_live.py",
    "spark/test_spark_other_engines.py",
    "spark/test_spark_versions.py",
    "spark/pipeline/test_spark_steps_that_fail.py",
    "spark/pipeline/test_spark_pipeline.py",
    "spark/pipeline/test_spark_rebuild.py",
    "spark/pipeline/test_spark_forget.py",
    "spark/pipeline/test_spark_documented_pipelines.py",
    "spark/pipeline/test_spark_silver_tables.py",
    "spark/pipeline/test_spark_parts.py",
    "spark/pipeline/test_spark_state.py",
    "spark/gold/test_spark_gold_verify.py",
    "spark/gold/test_spark_gold_query.py",
    "spark/gold/test_spark_gold_locality.py",
    "spark/gold/test_spark_gold_step.py",
    "spark/gold/test_spark_gold_late.py",
    "spark/test_spark_crashes.py",
    "spark/stores/test_spark_object_pipeline.py",
    "spark/source/test_spark_standalone.py",
    "spark/spark/test_spark_kills.py",
    "integration/test_upgrade_process.py",
    "integration/test_cli_bad_input.py",
    "browser/test_pages.py",
    "browser/test_page_widths.py",
    "browser/test_pixel.py",
    "integration/test_examples.py",
    "chaos/test_live.py",
    "integration/test_cli_cluster.py",
    "integration/test_kafka_groups.py",
    "integration/test_distributions.py",
    "spark/stores/test_spark_object_care.py",
    "integration/test_cli_group.py",
    "integration/test_config_alteration.py",
    "integration/test_large_requests.py",
    "sim/test_sim_many_partitions.py",
    "sim/test_sim_transactions.py",
    "sim/test_sim_corpus.py",
    "integration/test_storage_exhaustive.py",
    "integration/test_log_output_process.py",
    "integration/test_cli_demo.py",
    "chaos/test_survival.py",
    "integration/test_testing_wheel.py",
    "spark/source/test_spark_decode.py",
    "integration/test_controller_restore.py",
    "tidy/test_architecture.py",
    "unit/broker/rpc/test_request_bounds.py",
    "unit/spark_jobs/maintenance/test_maintenance_forget.py",
    "integration/test_grpc_experiments_process.py",
    "integration/test_tutorial.py",
    "integration/test_hanging_transactions_process.py",
    "sim/test_sim_groups.py",
    "integration/test_testing_cluster.py",
    "spark/bronze/test_spark_table.py",
    "integration/test_leadership.py",
    "unit/spark_jobs/state/test_state_step.py",
    "integration/test_client_transactions_process.py",
    "sim/test_sim_doubles.py",
    "integration/test_controller.py",
    "unit/bench/test_baseline.py",
    "integration/test_moved_names_process.py",
    "property/test_decoders_property.py",
    "integration/test_client_static_members.py",
    "integration/test_metrics_process.py",
    "integration/test_three_machines.py",
    "unit/spark_jobs/maintenance/test_maintenance_compact.py",
    "integration/test_damage_process.py",
    "integration/test_transaction_coordinator.py",
    "sim/test_sim_kafka.py",
    "integration/test_disk_full_process.py",
    "spark/stores/test_spark_object_tables.py",
    "integration/test_client_producer.py",
    "integration/test_topic_anew.py",
    "integration/test_kafka_dump.py",
    "integration/test_client_blocking_send.py",
    "sim/test_sim_store.py",
    "integration/test_power_process.py",
    "unit/spark_jobs/test_pipeline_values.py",
    "integration/test_reassignment.py",
    "chaos/test_compaction_survival.py",
    "integration/kafka_wire/test_records.py",
)
"""What takes longest by `pytest --durations`, in that order."""
TOGETHER = (
    ("tests/tidy/",),
    ("tests/browser/",),
    ("tests/spark/pipeline/", "tests/spark/sink/", "tests/spark/bronze/"),
    ("tests/spark/",),
)
"""Files that are one process's, by their beginnings, of which the first that fits counts: the
sources are parsed once, and one browser starts. A session of Spark computes ten seconds until it
has loaded and compiled what most runs use: two of them start.
"""
APART = (
    "tests/spark/bronze/test_spark_table.py",
    "tests/spark/source/test_spark_decode.py",
    "tests/spark/source/test_spark_standalone.py",
    "tests/spark/spark/test_spark_kills.py",
    "tests/spark/stores/test_spark_object_care.py",
    "tests/spark/stores/test_spark_object_pipeline.py",
    "tests/spark/stores/test_spark_object_tables.py",
)
"""Files among them that use no session, and take seconds."""
THOROUGH = (
    "golden/test_group_histories_of_shards.py",
    "property/test_batch_property.py",
    "property/test_decoders_property.py",
    "property/test_hot_messages_property.py",
    "property/test_kafka_records_property.py",
    "property/test_parsed_numbers_property.py",
    "property/test_push_codec_property.py",
    "property/test_record_walk_property.py",
    "property/test_row_walk_property.py",
    "property/test_silver_widening_property.py",
    "property/test_state_property.py",
    "property/test_verification_property.py",
    "unit/bench/test_baseline.py",
    "unit/bench/test_processes.py",
    "unit/broker/hosts/controller/test_controller_restore.py",
    "unit/broker/hosts/fetching/test_session.py",
    "unit/broker/kafka/cluster/test_metadata.py",
    "unit/broker/kafka/groups/test_bounds.py",
    "unit/broker/kafka/groups/test_classic.py",
    "unit/broker/kafka/groups/test_offset_commits.py",
    "unit/broker/kafka/records/test_fetch.py",
    "unit/broker/kafka/records/test_offsets.py",
    "unit/broker/kafka/records/test_produce.py",
    "unit/broker/kafka/transactions/test_offset_commits.py",
    "unit/broker/rpc/cluster/test_push.py",
    "unit/broker/rpc/cluster/test_push_late.py",
    "unit/broker/rpc/test_request_bounds.py",
    "unit/broker/rpc/test_stream_is_unary.py",
    "unit/broker/rpc/test_turns.py",
    "unit/broker/storage/cleaner/test_cleaned_transactions.py",
    "unit/broker/storage/cleaner/test_cleaner_crash.py",
    "unit/broker/storage/controller/test_metadata_snapshot.py",
    "unit/broker/storage/directory/test_broker_directories.py",
    "unit/broker/storage/log/test_aborted_power.py",
    "unit/broker/storage/log/test_bad_input.py",
    "unit/broker/storage/log/test_producer_snapshot.py",
    "unit/broker/storage/log/test_recovery.py",
    "unit/broker/storage/log/test_retention_crash.py",
    "unit/broker/storage/segment/test_reader_times.py",
    "unit/broker/storage/test_faults.py",
    "unit/broker/test_dashboards.py",
    "unit/cli/commands/context/test_context.py",
    "unit/cli/commands/test_consume.py",
    "unit/cli/test_log.py",
    "unit/client/_consumer/test_read_ahead.py",
    "unit/client/test_typed_clients.py",
    "unit/client/testing/test_plugin.py",
    "unit/console/test_large_clusters.py",
    "unit/proto/test_decompression.py",
    "unit/runtime/test_grpc_experiments.py",
    "unit/spark_jobs/delta_log/test_delta_log_files.py",
    "unit/spark_jobs/maintenance/test_maintenance_compact.py",
    "unit/spark_jobs/maintenance/test_maintenance_forget.py",
    "unit/spark_jobs/maintenance/test_maintenance_retention.py",
    "unit/spark_jobs/parsing/test_parsing_csv.py",
    "unit/spark_jobs/parsing/test_parsing_epochs.py",
    "unit/spark_jobs/parsing/test_parsing_json_random.py",
    "unit/spark_jobs/parsing/test_parsing_times.py",
    "unit/spark_jobs/silver/test_silver_dedupe.py",
    "unit/spark_jobs/state/test_state_definition.py",
    "unit/spark_jobs/state/test_state_step.py",
    "unit/spark_jobs/state/test_state_verify.py",
    "unit/spark_jobs/test_access_lines.py",
    "unit/spark_jobs/test_pipeline_values.py",
    "unit/spark_jobs/test_silver_explode.py",
    "unit/spark_jobs/test_silver_parts.py",
    "unit/tools/test_reference.py",
)
"""Files that compute for a second or more: they damage each byte, end at each operation of a
disk, or start interpreters. `make check` leaves them to `make test`, and does not import them.
"""
MEMORY = "/dev/shm"
ROOM_BYTES = 4 << 30
"""A whole run needs a tenth of it."""
CLOSING = os.environ.pop("TEST_CLOSING", None)
"""The file to which the run adds its closing line; its workers and runs in tests do not."""
collect_ignore = list(THOROUGH) if os.environ.get("TEST_QUICK") else []
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")

settings.register_profile(
    "strandline",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("strandline")
"""A machine that does other things takes its time with some examples: no property is timed."""


@cache
def _java_missing() -> str | None:
    java = shutil.which("java") or _java_of_home()
    if java is None:
        return "no Java found: install openjdk-17-jre-headless, or set JAVA_HOME"
    return None


@cache
def _maven_missing() -> str | None:
    if shutil.which("mvn") is None:
        return "no Maven found: install maven; Kafka's own tools are not run on our files"
    return _java_missing()


def _java_of_home() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return None if home is None else shutil.which("java", path=f"{home}/bin")


@cache
def _docker_missing() -> str | None:
    if shutil.which("docker") is None:
        return "no Docker found: install an engine and its compose plugin"
    try:
        answer = subprocess.run(
            ["docker", "compose", "ls"], capture_output=True, timeout=20, check=False
        )
    except subprocess.TimeoutExpired:
        return "the Docker engine does not answer: start it"
    if answer.returncode != 0:
        return "the Docker engine or `docker compose` does not answer: start the engine"
    return None


@cache
def _browser_missing() -> str | None:
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"no {program} found: install chromium and chromium-driver"
    return None


def pytest_configure() -> None:
    """Before any directory is made; the processes that tests are spread over inherit it."""
    if "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None


def _has_room(path: str) -> bool:
    """And runs programs: some tests write theirs."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    runs = not disk.f_flag & os.ST_NOEXEC
    return runs and os.access(path, os.W_OK) and disk.f_bavail * disk.f_frsize >= ROOM_BYTES


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay to the end: no collection of garbage walks them while they come."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files come first: at the end they would leave every other process idle.

    `make test` leaves out what `proof` marks, and `make proof` runs it.
    """
    proving = tuple(f"{folder}/" for folder in PROOF)  # as text: 12,000 paths take a second
    for item in items:
        if str(item.path).startswith(proving):
            item.add_marker(pytest.mark.proof)
    named = [TESTS / name for name in (*LONGEST, *THOROUGH)]
    gone = [
        path for path in (*named, *(TESTS.parent / name for name in APART)) if not path.exists()
    ]
    assert gone == [], "LONGEST, THOROUGH or APART names files that are gone"
    places = {str(TESTS / name): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(str(item.path), len(places)))
    if TURN:
        others = [item for item in items if not is_of_turn(item.nodeid, TURN)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if is_of_turn(item.nodeid, TURN)]


def is_of_turn(nodeid: str, turn: str) -> bool:
    """True for tests of the simulator, for simulated clusters, and for one share of all others."""
    if nodeid.startswith(("tests/proof/", "tests/unit/proof/", "tests/sim/")):
        return True
    number, turns = map(int, turn.split("/"))
    return zlib.crc32(nodeid.encode()) % turns == number % turns


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but for the files of TOGETHER."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduler = importlib.import_module("xdist.scheduler").LoadFileScheduling(config, log)
    scheduler._split_scope = _place_of
    return scheduler


def _place_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    if file in APART:
        return file
    return next((each[0] for each in TOGETHER if file.startswith(each)), file)


def pytest_collection_finish() -> None:
    """Thousands of tests and all modules stay to the end: no collection of garbage walks them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run; in CI fail, unless the shared folder is missing."""
    if item.get_closest_marker("spark") is not None and (why := _java_missing()) is not None:
        _lacking(why, excused=False)
    if item.get_closest_marker("maven") is not None and (why := _maven_missing()) is not None:
        _lacking(why, excused=False)
    if item.get_closest_marker("browser") is not None and (why := _browser_missing()) is not None:
        _lacking(why, excused=False)
    if item.get_closest_marker("docker") is not None and (why := _docker_missing()) is not None:
        _lacking(why, excused=not (SHARED / "machine" / "docker.sh").is_file())


def _lacking(why: str, *, excused: bool) -> None:
    if IN_CI and not excused:
        pytest.fail(f"{why} (CI must run this test)", pytrace=False)
    pytest.skip(why)


@pytest.fixture(autouse=True)
def _locks_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A data directory that a test does not close, as a process that is killed does not, would stay
    locked and its file open in all tests after it. Spark waits for callbacks with `select`, which
    takes no descriptor beyond 1023: it waits for ever then.
    """
    lock, close = RealFileSystem.lock, RealFileSystem.close
    held: set[int] = set()

    def take(self: RealFileSystem, path: str) -> int:
        fd = lock(self, path)
        held.add(fd)
        return fd

    def let_go(fd: int) -> None:
        held.discard(fd)
        close(fd)

    monkeypatch.setattr(RealFileSystem, "lock", take)
    monkeypatch.setattr(RealFileSystem, "close", staticmethod(let_go))
    yield
    for fd in held:
        os.close(fd)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped and why, once for each reason, where nobody can miss it.

    The numbers of passed and failed tests go into the file that CLOSING names, too.
    """
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
    if CLOSING is not None and not terminalreporter.config.option.collectonly:
        parts, _ = terminalreporter.build_summary_stats_line()
        with open(CLOSING, "a", encoding="utf-8") as file:
            file.write(f"    {', '.join(text for text, _ in parts)}\n")
    if not reasons:
        return
    terminalreporter.write_sep("=", "NOT TESTED ON THIS MACHINE", yellow=True, bold=True)
    for why, count in reasons.most_common():
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"{tests}: {why}", yellow=True)
