"""House rules on structure that no linter states: what decides never awaits and has its test."""

import ast
import re
from pathlib import Path

from support.tidy_tree import ROOT, SOURCE_ROOTS, name_of, nodes, python_files, syntax

BROKER = ROOT / "broker" / "strandline_broker"
TESTS = ROOT / "tests"

# Parts of a machine that are tested through it: module, and the test file that has its behaviours.
TESTED_THROUGH = {
    "classic_records": "records/test_codec",
    "admission": "groups/test_offsets",
    "application": "coordination/test_application",
    "commands": "groups/test_groups",
    "completing": "transactions/test_end",
    "end": "transactions/test_end",
    "init_producer": "transactions/test_init_producer",
    "partitions": "transactions/test_partitions",
    "timeouts": "transactions/test_timeouts",
    "transactional_ids": "serving/test_transactions",
    "transactions": "transactions/test_transactions_property",
    "heartbeat": "consumer/test_heartbeat",
    "context": "groups/test_groups",
    "current_assignment": "consumer/test_reconcile",
    "consumer_records": "records/test_codec",
    "decision": "groups/test_groups",
    "effects": "groups/test_groups",
    "expiry": "groups/test_expiry",
    "heartbeat_rules": "consumer/test_heartbeat",
    "isr_proposal": "replication/test_leader",
    "loss_reports": "partitions/test_losses",
    "offset_records": "records/test_codec",
    "offsets": "groups/test_offsets",
    "membership": "groups/test_groups_property",
    "removal": "consumer/test_removal",
    "replica_condition": "partitions/test_offline_replicas",
    "record_limits": "log/test_state",
    "settings": "groups/test_groups",
    "group_table": "groups/test_groups_property",
    "target": "consumer/test_heartbeat",
    "wire": "records/test_codec",
}


def modules_below(folder: Path) -> list[Path]:
    return [p for p in python_files() if folder in p.parents and p.name != "__init__.py"]


def awaits(path: Path) -> list[str]:
    asynchronous = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    return [
        f"{name_of(path)}:{node.lineno}" for node in nodes(path) if isinstance(node, asynchronous)
    ]


def test_what_decides_and_what_remembers_never_awaits() -> None:
    pure = [BROKER / "core", BROKER / "storage", ROOT / "client" / "strandline" / "_core"]
    assert [
        place for folder in pure for path in modules_below(folder) for place in awaits(path)
    ] == []


def test_no_package_imports_another_by_a_string() -> None:
    """The contracts on imports see statements alone."""
    by_name = re.compile(r"""\b(?:import_module|__import__)\(\s*f?["'](strandline\w*)""")
    found = []
    for root in SOURCE_ROOTS:
        for path in modules_below(ROOT / root):
            own = path.relative_to(ROOT / root).parts[0]
            named = by_name.findall(path.read_text("utf-8"))
            found += [f"{name_of(path)}: {name}" for name in named if name != own]
    assert found == []


def test_a_log_changes_by_its_transitions_alone() -> None:
    """Nobody assigns to a `Log`, or to its state, from outside (P-34: the order is theirs)."""
    own = {BROKER / "storage" / "log.py", BROKER / "storage" / "log_state.py"}
    found = []
    for path in set(modules_below(BROKER)) - own:
        for node in nodes(path):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            owner = ast.unparse(node.value)
            if owner.rpartition(".")[2] in ("log", "_log") or owner.endswith("log.state"):
                found.append(f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}")
    assert found == []


def test_a_replica_changes_by_its_transitions_alone() -> None:
    """Nobody assigns to a `Partition` from outside, by whatever name it goes there."""
    own = BROKER / "hosts" / "replica" / "partition.py"
    begin = next(
        node for node in nodes(own) if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    attributes = {place.attr for place in assigned_attributes(begin)}
    assert {"role", "high_watermark", "out_of_service"} <= attributes
    found = []
    for path in set(modules_below(BROKER / "hosts")) - {own}:
        for place in assigned_attributes(syntax(path)):
            owner = ast.unparse(place.value)
            of_a_replica = owner.rpartition(".")[2] in ("partition", "_partition", "replica")
            if of_a_replica or (place.attr in attributes and owner != "self"):
                found.append(f"{name_of(path)}:{place.lineno}: {ast.unparse(place)}")
    for folder in (BROKER / "rpc", ROOT / "proof" / "strandline_proof" / "sim"):
        for path in modules_below(folder):
            found += [
                f"{name_of(path)}:{place.lineno}: {ast.unparse(place)}"
                for place in assigned_attributes(syntax(path))
                if ast.unparse(place.value).rpartition(".")[2] == "partition"
            ]
    assert found == []


def assigned_attributes(tree: ast.AST) -> list[ast.Attribute]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    ]


READS_WHAT_OTHERS_WROTE = (
    *("proto/strandline_proto", "spark_jobs/strandline_spark"),
    *(f"broker/strandline_broker/{part}" for part in ("rpc", "offline")),
    *(
        f"broker/strandline_broker/{path}.py"
        for path in (
            *("core/controller/state", "core/controller/snapshot", "core/controller/records"),
            *("storage/checkpoints", "storage/leader_epochs", "storage/metadata_snapshot"),
            *("storage/producer_snapshot", "storage/follower_run", "storage/recovery"),
        )
    ),
)


def tells_the_type_alone(test: ast.expr) -> bool:
    """`x is not None` and `isinstance(x, T)`: for the type checker."""
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.IsNot)
    return isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance"


def test_what_a_disk_or_a_peer_says_is_refused_and_not_asserted() -> None:
    """A wrong byte costs what it belongs to; an assertion costs the process."""
    found = []
    for path in python_files():
        if not name_of(path).startswith(READS_WHAT_OTHERS_WROTE):
            continue
        for node in nodes(path):
            if isinstance(node, ast.Assert) and not tells_the_type_alone(node.test):
                is_of_the_module = node in syntax(path).body  # about constants
                is_of_a_fresh_state = ast.unparse(node.test) == "state.last_offset < 0"
                if not is_of_the_module and not is_of_a_fresh_state:
                    found.append(f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}")
    assert found == []


def test_every_machine_has_a_test_file_of_its_name() -> None:
    texts = {str(p.relative_to(TESTS)): p.read_text("utf-8") for p in TESTS.rglob("test_*.py")}
    untested = []
    for module in modules_below(BROKER / "core"):
        dotted = ".".join(module.relative_to(ROOT / "broker").with_suffix("").parts)
        imported = re.compile(
            rf"{re.escape(dotted)}\b|from {re.escape(dotted.rpartition('.')[0])} import"
            rf"[^)]*?\b{module.stem}\b"
        )
        through = TESTED_THROUGH.get(module.stem)
        named = [text for name, text in texts.items() if (through or module.stem) in name]
        if not any(through or imported.search(text) for text in named):
            untested.append(name_of(module))
    assert untested == []


def test_quick_tests_neither_sleep_nor_mock() -> None:
    found = []
    for path in [*modules_below(TESTS / "unit"), *modules_below(TESTS / "property")]:
        for node in nodes(path):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                if {"mock", "unittest.mock", "unittest"} & names:
                    found.append(f"{name_of(path)}:{node.lineno}: a mock")
            if isinstance(node, ast.Call) and sleeps(node):
                found.append(f"{name_of(path)}:{node.lineno}: a sleep")
    assert found == []


def sleeps(call: ast.Call) -> bool:
    """Whether it waits for a clock; `asyncio.sleep(0)` only lets others run."""
    last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if last != "sleep" or ast.unparse(call) == "asyncio.sleep(0)":
        return False
    return ast.unparse(call.func) in ("time.sleep", "asyncio.sleep", "sleep")


def test_no_message_has_a_map() -> None:
    protos = sorted((ROOT / "proto").rglob("*.proto"))
    assert protos
    assert [name_of(p) for p in protos if re.search(r"\bmap\s*<", strip_comments(p))] == []


def strip_comments(path: Path) -> str:
    return re.sub(r"//[^\n]*", "", path.read_text("utf-8"))


CATCHES_ALL = re.compile(r"\bexcept\s*:|\b(Base)?Exception\b")


def test_exceptions_are_never_swallowed_whole() -> None:
    found = [
        f"{name_of(path)}:{handler.lineno}"
        for path in python_files()
        if CATCHES_ALL.search(path.read_text("utf-8"))
        for handler in nodes(path)
        if isinstance(handler, ast.ExceptHandler)
        and (handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException"))
        and all(isinstance(statement, ast.Pass | ast.Continue) for statement in handler.body)
    ]
    assert found == []
