"""The page of a chaos run is one file, escapes what it is told, and has the history's figures."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from strandline_chaos.faults.page import GLYPHS, render
from strandline_chaos.faults.plan import KINDS, PlanOptions
from strandline_chaos.faults.series import Report, Series, percentile
from strandline_chaos.faults.verdict import ALL_ANOMALIES, FAULT, Findings, judge
from support.live_history import good_history

if TYPE_CHECKING:
    from strandline_chaos.history import Event

HOSTILE = "<script>alert('&\"')</script>"


def report(events: list[Event], **found: object) -> Report:
    verdict = judge(events, Findings(**found))  # type: ignore[arg-type]
    return Report(
        options=PlanOptions(7, 10),
        cannot={},
        skipped=(),
        target="processes",
        flag="--processes",
        build="0.1.0",
        when="now",
        events=events,
        begun_ns=0,
        verdict=verdict,
    )


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br", "line", "rect", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing() -> None:
    page = render(report(good_history()))
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.seen.isdisjoint({"script", "link", "img", "iframe"})
    assert re.search(r"https?:|url\(|@import|\son\w+=", page) is None
    assert "default-src 'none'" in page
    assert "prefers-color-scheme:dark" in page
    assert "Every promise was kept." in page
    assert all(f">{name}</td>" in page for name in ALL_ANOMALIES)


def test_what_a_run_tells_is_escaped() -> None:
    events = [
        replace(e, value={**e.value, "detail": HOSTILE, "victims": [HOSTILE]})
        if e.f == FAULT
        else e
        for e in good_history()
    ]
    told = replace(
        report(events, died=(HOSTILE,), incomplete=HOSTILE),
        cannot={"clock": HOSTILE},
        skipped=[HOSTILE],
        target=HOSTILE,
        build=HOSTILE,
        when=HOSTILE,
    )
    page = render(told)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 8


def test_a_page_of_a_run_in_which_nothing_happened_can_be_drawn() -> None:
    page = render(report([]))
    assert "No verdict can be given." in page
    assert "No fault struck." in page


def test_every_kind_of_fault_has_a_letter_of_its_own() -> None:
    assert set(GLYPHS) == set(KINDS)
    assert len(set(GLYPHS.values())) == len(KINDS)


def test_rates_and_latencies_are_those_of_the_history() -> None:
    events = good_history()
    series = Series(events, 0)
    seconds = series.seconds()
    assert sum(each.acknowledged for each in seconds) == 12
    assert sum(each.read for each in seconds) == 24, "once as it came, once at the end"
    assert sum(each.delivered for each in seconds) == 24
    assert {each.p50_ms for each in seconds if each.acknowledged} == {100.0}
    [around] = series.around()
    assert around.span.kind == "kill"
    assert round(around.span.end_s - around.span.start_s, 3) == 0.1
    assert around.before.per_s == 6 / 5
    assert around.during.per_s == 0
    assert around.during.p99_ms is None
    # A key's last record before the fault, and its first one after it.
    at_s = [e.time_ns / 1e9 for e in events if e.f == "send" and e.type == "ok"]
    assert round(around.longest_gap_s, 3) == round(at_s[6] - at_s[4], 3)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([], 99) is None
    assert percentile([5.0], 50) == 5.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 99) == 99.0


def test_the_last_line_tells_the_verdict_and_what_was_left_out() -> None:
    sound = replace(report(good_history()), cannot={"delay": "no tun"})
    assert sound.line() == (
        "verdict: sound (seed 7, 10 s, 1 faults, not here: delay): 12 acknowledged, 12 read back,"
        " 4 commits of 2 groups; nothing lost, doubled, reordered or taken back"
    )
    dead = report(good_history(), died=("broker-1: gone",))
    assert dead.line().endswith("; 1 died")
    assert dead.document()["verdict"] == "broken"
