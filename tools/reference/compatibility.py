"""docs/compatibility.md, from the results of `make conformance` and the notes on each client."""

import json
from pathlib import Path
from typing import Any

from md_table import table
from reference.client_notes import MISSING, NOTES

RESULTS = Path(__file__).parents[2] / "tests" / "conformance" / "results-strandline.json"
INTRODUCTION = """\
# Compatibility

Made by `make docs` from the results of `make conformance`; change it there.

Kafka's clients and tools work unmodified. `make conformance` runs them against three brokers, and
writes `tests/conformance/results-strandline.json`. `TARGET=kafka` runs the same tests against
Apache Kafka. CI runs `make smoke`: the clients without sarama, kafkajs and platformatic. In the
middle, a leader and two coordinators are killed with `kill -9`.

The served requests and versions: [Kafka's protocol](reference/kafka-protocol.md).
"""
FEATURES = {
    "create topic": ("create topic",),
    "idempotent produce, five codecs": (
        *("produce none", "produce gzip", "produce snappy", "produce lz4", "produce zstd"),
    ),
    "headers and bytes": ("headers and bytes",),
    "classic group, restart": ("classic group", "classic group: restart"),
    "KIP-848 group, restart": ("KIP-848 group", "KIP-848 group: restart"),
    "offsets by time": ("offsets by time",),
    "leader killed": ("leader killed",),
    "coordinator killed": ("coordinator killed", "restart after the kill"),
    "transactions": (
        *("transaction committed", "transaction aborted", "offsets in a transaction"),
        *("producer fenced", "transactions: coordinator killed"),
    ),
    "delete records": ("delete records",),
    "delete topic": ("delete topic",),
}
Steps = dict[str, dict[str, str]]


def compatibility() -> str:
    results: dict[str, dict[str, Steps]] = json.loads(RESULTS.read_text("utf-8"))
    parts = [
        INTRODUCTION,
        _section("Client by feature", FEATURES_TEXT, _features(results["smoke"])),
        _section("Transactions", TRANSACTIONS_TEXT, ""),
        _section("Who reads whom", READING_TEXT, _reading(results["cross reading"])),
        _section("Groups, tools and frameworks", "", _others(results)),
        _section("The clients' own tests", SUITES_TEXT, _suites(results["suites"])),
        "## The clients\n\n" + "\n".join(_notes(name, lines) for name, lines in NOTES.items()),
        _section("What a client sees of a missing feature", "", table(MISSING[0], MISSING[1:])),
    ]
    return "\n".join(parts)


FEATURES_TEXT = """\
"yes": every step passed. "-": the client has no such operation. "in part": the client lacks some of
it, and the notes below say what. "not run": our driver of the client has no such step.
"""
TRANSACTIONS_TEXT = """\
The smoke test commits and aborts, commits offsets, and fences a producer by a second one. It also
kills the coordinator between two transactions. Readers of every client see committed records only.

Java's clients from 4 on, and ours, give each transaction an epoch of its own. The other clients
speak the first version of the protocol, in which a producer keeps its epoch. They do not get this:

- A late EndTxn cannot end the next transaction. With the first version, a request that the network
  delays past the end of its transaction may commit or abort the next one of the same producer.
- A late record cannot enter the next transaction. With the first version, the broker asks the
  coordinator whether the partition is in a transaction, but not in which one.

Both are flaws of the first version on Apache Kafka too. They need a delayed or repeated request;
without one, each transaction is committed or aborted as a whole.
"""
READING_TEXT = """\
Each client writes records in its codecs: null and empty values, all bytes, accents, headers. Each
other client reads keys, values, headers and timestamps byte for byte.
"""
SUITES_TEXT = """\
kafka-python's integration tests run without SASL and TLS. franz-go's tests of `pkg/kgo` run without
share groups and SASL.
"""


def _section(title: str, text: str, shown: str) -> str:
    return "\n".join(each for each in (f"## {title}\n", text, shown) if each)


def _features(smoke: dict[str, Steps]) -> str:
    rows = [
        [_named(name, steps), *(_cell(steps, wanted) for wanted in FEATURES.values())]
        for name, steps in smoke.items()
    ]
    return table(["client", *FEATURES], sorted(rows))


def _named(name: str, steps: Steps) -> str:
    return f"[{name}](#{name.replace('.', '')})" if name in NOTES else name


def _cell(steps: Steps, wanted: tuple[str, ...]) -> str:
    if any(step not in steps for step in wanted):
        return "not run"
    outcomes = {steps[step]["outcome"] for step in wanted}
    if "failed" in outcomes:
        return f"no: {next(steps[s]['detail'] for s in wanted if steps[s]['outcome'] == 'failed')}"
    return {frozenset({"passed"}): "yes", frozenset({"absent"}): "-"}.get(
        frozenset(outcomes), "in part"
    )


def _reading(read: dict[str, Steps]) -> str:
    readers = sorted({step for steps in read.values() for step in steps})
    rows = [
        [writer, *(_read(steps.get(reader)) for reader in readers)]
        for writer, steps in sorted(read.items())
    ]
    return table(["written by", *(each.removeprefix("read by ") for each in readers)], rows)


def _read(result: dict[str, str] | None) -> str:
    if result is None:
        return "-"
    return "yes" if result["outcome"] == "passed" else "no"


def _others(results: dict[str, dict[str, Steps]]) -> str:
    rows = [
        (client, step, "yes" if result["outcome"] == "passed" else f"no: {result['detail']}")
        for part in ("groups", "tools", "frameworks")
        for client, steps in results.get(part, {}).items()
        for step, result in steps.items()
    ]
    return table(("what", "does", "passes"), rows)


def _suites(suites: dict[str, Steps]) -> str:
    rows: list[tuple[str, ...]] = []
    for name, tests in suites.items():
        outcomes = [result["outcome"] for result in tests.values()]
        failed = "; ".join(
            f"`{test}`: {result['detail']}"
            for test, result in tests.items()
            if result["outcome"] == "failed"
        )
        counts: list[Any] = [outcomes.count(each) for each in ("passed", "absent", "failed")]
        rows.append((name, *map(str, counts), failed))
    return table(("client", "pass", "skipped", "fail", "why"), rows)


def _notes(name: str, lines: tuple[str, ...]) -> str:
    return f"### {name}\n\n" + "".join(f"- {line}\n" for line in lines)
