"""docs/guide/coming-from-kafka.md and the code say the same."""

import re

from strandline_broker.config.keys import BROKER_KEYS, CONTROLLER_KEYS
from strandline_broker.config.unsupported import refusal
from support.tidy_tree import ROOT

PAGE = (ROOT / "docs" / "guide" / "coming-from-kafka.md").read_text("utf-8")
MISSING = (ROOT / "docs" / "compatibility.md").read_text("utf-8").partition("missing feature\n")[2]


def rows(section: str) -> list[list[str]]:
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_what_the_page_calls_missing_is_missing() -> None:
    named = {feature for feature, _ in rows("What is not there")}
    assert len(named) > 5
    assert {feature for feature in named if f"\n| {feature} |" not in MISSING} == set()


def test_keys_with_another_name_are_refused_with_that_name() -> None:
    sentence = re.search(r"^Keys with another name here: (.*?)\. A refused", PAGE, re.S | re.M)
    assert sentence is not None
    for pair in re.split(r",\s", sentence[1]):
        *theirs, ours = re.findall(r"`([\w.]+)`", pair)
        for name in theirs:
            whole = f"log.retention{name}" if name.startswith(".") else name
            assert str(refusal(whole, "1")).endswith(f"use {ours}")
            assert ours in {*BROKER_KEYS, *CONTROLLER_KEYS}


def test_the_defaults_that_the_page_names_are_the_defaults() -> None:
    defaults = {**CONTROLLER_KEYS, **BROKER_KEYS}
    assert defaults["default.replication.factor"].default == "3"
    assert defaults["min.insync.replicas"].default == "2"
    assert defaults["group.initial.rebalance.delay.ms"].default == "100"
    assert defaults["log.cleaner.dedupe.buffer.size"].default == str(32 << 20)
