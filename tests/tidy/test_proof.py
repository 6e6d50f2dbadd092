"""One rule says which tests `make test` runs and which `make proof`.

The tests below tests/proof and tests/unit/proof have the marker `proof`, by their folder. A test
elsewhere carries it for a reason that stands here: it plants a bug, or it repeats what one kill
shows.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from support.tidy_tree import ROOT, name_of, nodes, python_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

TESTS = ROOT / "tests"
PROOF = TESTS / "proof"
UNITS = TESTS / "unit" / "proof"
MARKER = "pytest.mark.proof"
MARKED = {
    "tests/browser/test_kip101_ghosts.py": "plays each history with and without its switch",
    "tests/browser/test_page_widths.py": "has each width in the other theme too",
    "tests/chaos/test_compaction_survival.py": "kills a leader more than once",
    "tests/chaos/test_survival.py": "kills, stops and starts servers in turn, as chaos live does",
    "tests/chaos/test_transfers.py": "kills brokers twice among transactions",
    "tests/golden/test_group_histories_of_shards.py": "lets five times as many members join",
    "tests/integration/kafka_wire/test_fuzz.py": "sends five times as many frames by chance",
    "tests/integration/test_containers.py": "kills, pauses, and fills a disk in containers",
    "tests/integration/test_group_consumers_process.py": "kills a coordinator four times",
    "tests/integration/test_storage_exhaustive.py": "changes every byte in more ways",
    "tests/sim/test_sim_corpus.py": "runs one plan in 24 with the product, and others here",
    "tests/sim/test_sim_groups.py": "plants bugs, and lives through each moment that seeds draw",
    "tests/sim/test_sim_doubles.py": "has two copies again, under another flush policy",
    "tests/sim/test_sim_many_partitions.py": "slows one of many replicas in virtual time",
    "tests/sim/test_sim_moves.py": "moves replicas in virtual time: test_reassignment does it live",
    "tests/sim/test_sim_topic_anew.py": "makes topics again, as the live test_topic_anew does",
    "tests/sim/test_sim_transactions.py": "kills coordinators at each of their steps",
    "tests/spark/gold/test_spark_gold_histories.py": "plays a random history",
    "tests/spark/gold/test_spark_gold_late.py": "plays a random history",
    "tests/spark/gold/test_spark_gold_query.py": "counts windows of four more sizes",
    "tests/spark/gold/test_spark_gold_verify.py": "finds in sessions what it finds in windows",
    "tests/spark/pipeline/test_spark_rebuild.py": "kills a rebuild at each of its steps",
    "tests/spark/sink/test_spark_sink.py": "kills the driver of another kind of query",
    "tests/spark/source/test_spark_standalone.py": "has three workers that cannot work",
    "tests/spark/spark/test_spark_kills.py": "kills the driver twice",
    "tests/spark/test_spark_crashes.py": "has the record in the first and the last place too",
    "tests/spark/spark/test_spark_random_kills.py": (
        "kills a pair of processes: other tests kill a worker, a leader and the driver"
    ),
    "tests/spark/stores/test_spark_object_pipeline.py": "kills the driver of an object store too",
    "tests/unit/spark_jobs/delta_log/test_delta_log_files.py": "plays four more random histories",
    "tests/unit/broker/storage/controller/test_metadata_snapshot.py": (
        "ends the store at each disk operation in two more ways"
    ),
}
HARNESS = re.compile(r"\bstrandline_proof\.(model|mutants\.harness|sim\.sweep)\b")
"""The small model, the search for planted bugs, and sweeps."""
CHANGED_SETTINGS = {"tests/sim/test_sim_moves.py"}
"""A file that patches a cluster's configuration, and no code of the product."""


def files_elsewhere() -> list[Path]:
    own = TESTS / "tidy", TESTS / "unit"
    return [
        path
        for path in python_files()
        if path.name.startswith("test_") and TESTS in path.parents
        if PROOF not in path.parents and not any(folder in path.parents for folder in own)
    ]


def is_marked(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) == MARKER for decorator in function.decorator_list)


def test_the_marker_stands_only_where_a_reason_is_given() -> None:
    marked = {
        name_of(path)
        for path in python_files()
        if TESTS in path.parents and path.name.startswith("test_") and path.name != "test_proof.py"
        if MARKER in path.read_text("utf-8")
    }
    assert marked == set(MARKED)


class Item:
    """What the hook of tests/conftest.py looks at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.markers: list[str] = []

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker.name)


def conftest_of(config: pytest.Config) -> Any:
    plugins: Iterable[Any] = config.pluginmanager.get_plugins()
    (conftest,) = (one for one in plugins if getattr(one, "PROOF", None) == (PROOF, UNITS))
    return conftest


def test_a_test_is_marked_by_its_folder(pytestconfig: pytest.Config) -> None:
    below, deeper = Item(PROOF / "test_a.py"), Item(PROOF / "oracles" / "test_b.py")
    unit = Item(UNITS / "mutants" / "test_c.py")
    beside = Item(TESTS / "sim" / "test_d.py")
    client = Item(TESTS / "unit" / "client" / "test_e.py")
    items = [below, deeper, unit, beside, client]
    conftest_of(pytestconfig).pytest_collection_modifyitems(pytestconfig, items)
    assert [one.markers for one in (below, deeper, unit)] == [["proof"]] * 3
    assert (beside.markers, client.markers) == ([], [])


def test_each_repeated_kill_has_one_turn_and_the_simulator_has_all(
    pytestconfig: pytest.Config,
) -> None:
    def turns_of(nodeid: str) -> list[int]:
        is_of_turn = conftest_of(pytestconfig).is_of_turn
        return [turn for turn in range(3) if is_of_turn(nodeid, f"{turn + 300}/3")]

    kills = [turns_of(f"tests/chaos/test_survival.py::test_{number}") for number in range(30)]
    assert sorted({turn for (turn,) in kills}) == [0, 1, 2]
    for place in ("sim/test_sim_moves.py", "proof/test_sim_mutants.py", "unit/proof/test_a.py"):
        assert turns_of(f"tests/{place}::test_a") == [0, 1, 2]


def test_what_plants_bugs_or_searches_for_them_is_part_of_the_proof() -> None:
    found = []
    for path in files_elsewhere():
        if HARNESS.search(path.read_text("utf-8")):
            found.append(f"{name_of(path)}: a search")
        if TESTS / "sim" in path.parents and name_of(path) not in CHANGED_SETTINGS:
            found += [
                f"{name_of(path)}:{node.lineno}: a planted bug"
                for node in nodes(path)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and "monkeypatch" in {argument.arg for argument in node.args.args}
                and not is_marked(node)
            ]
    assert found == [], "move it below tests/proof"


def test_the_two_commands_run_everything_and_ci_runs_both() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    selected = re.findall(
        r'^\t@.*\$\(PYTEST\) \S+ -m "?(not proof|proof)"? ', makefile, re.MULTILINE
    )
    assert selected == ["not proof", "proof"]
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^part make (test|proof)\b", ci, re.MULTILINE) == ["test", "proof"]
