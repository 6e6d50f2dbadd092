"""An oracle computes for itself: what it judges a server by it does not ask the server for."""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.tidy_tree import ROOT, name_of, nodes

SIM = ROOT / "proof" / "strandline_proof" / "sim"
JUDGES = (
    *sorted((SIM / "oracles").rglob("*.py")),
    SIM / "run" / "run.py",
    SIM / "run" / "all_but_one.py",
    SIM / "run" / "operator.py",
    ROOT / "chaos" / "strandline_chaos" / "excused.py",
)

ANSWERS = {
    "effective_min_isr": "`DecidedLog` works out the minimum",
    "least_in_sync": "`DecidedLog` works out the minimum",
    "min_insync_default": "`DecidedLog` works out the minimum",
    "below_min_isr": "`ControlOracle.spare` knows",
    "was_caught_up_within": "`FetchOracle` has seen the fetches",
    "applied_offset": "`AppliedOracle` looks at the roles that were taken",
    "highest_offset": "`AppliedOracle` looks at the roles that were taken",
    "end_offset_known": "a leader's first end is in the log that it led",
    "epoch_start": "a leader's first end is in the log that it led",
    "fencing_offset": "`DecidedLog` has the record that fenced a broker",
    "shutdown_offset": "`DecidedLog` has the record that began a shutdown",
}
"""What a server says of itself, and who of us knows better."""

HIGH_WATERMARK = {
    "replica.py": "notes the mark, to see it move",
    "replicas.py": "the mark is judged: I-6, I-9, I-10, I-13",
    "leaders.py": "the mark is judged: I-11, I-24, I-29",
    "rules.py": "the mark is judged: I-29",
    "audit.py": "reads what a replica would serve, once `run.py` has judged its mark",
    "watch.py": "the last stable offset of that mark is judged: I-152",
    "looks.py": "sees that it moves",
    "run.py": "in the end each replica's mark is held against the end of every log (I-88)",
    "standing.py": "a field of its own",
    "coordinators.py": "what its replica calls committed a coordinator may use (I-9, I-13)",
    "calls.py": "asks `Coordinators`",
    "conversation.py": "a field of `Standing`",
}
"""Who may read a server's high watermark: it is what they judge."""


def attributes(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes(path):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "attrgetter",
            "getattr",
        ):
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            yield from ((node.lineno, w) for text in texts for w in str(text).split("."))
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)


def test_no_oracle_asks_a_server_what_it_judges_it_by() -> None:
    found = [
        f"{name_of(path)}:{line}: {word}: {ANSWERS[word]}"
        for path in JUDGES
        for line, word in attributes(path)
        if word in ANSWERS
    ]
    assert not found, found


def test_only_who_judges_a_high_watermark_reads_it() -> None:
    readers = {
        path.name for path in JUDGES for _, word in attributes(path) if word == "high_watermark"
    }
    assert readers <= HIGH_WATERMARK.keys(), readers - HIGH_WATERMARK.keys()
