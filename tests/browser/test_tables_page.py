"""The page of tables, and the search of the board, against answers that are made by hand."""

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from strandline_bench.console.browser import Browser
from strandline_console.answers import Batch, Meta, Pipeline, Tables, TableState, TopicProgress
from strandline_console.messages import MESSAGES_VERSION
from support import console_scenes as scenes
from support.scripted_console import ScriptedConsole

pytestmark = pytest.mark.browser

T0 = 1_780_000_000_000
META = Meta(
    messages_version=MESSAGES_VERSION,
    build="test",
    run="script",
    bootstrap="127.0.0.1:9091",
    read_only=False,
    read_only_reason=None,
    has_tables=True,
    kept_ms=900_000,
)


@pytest.fixture
def console() -> Iterator[ScriptedConsole]:
    script = ScriptedConsole(scenes.cluster(T0, {"orders": 400, "payments": 100}), T0)
    script.answers["/api/meta"] = asdict(META)
    with script:
        yield script


def opened(browser: Browser, console: ScriptedConsole, route: str) -> None:
    browser.open(f"{console.address}/#/{route}")
    browser.wait("document.querySelector('main')?.innerText.length > 20")


def progress(planned: int | None, watermark: int | None) -> TopicProgress:
    known = planned is not None and watermark is not None
    return TopicProgress(
        topic="orders",
        partition=0,
        planned=planned,
        high_watermark=watermark,
        lag=watermark - planned if known else None,  # type: ignore[operator]
    )


def table(name: str, **known: object) -> TableState:
    fields = dict.fromkeys(("version", "rows", "files", "batch", "written_ms", "quarantined"))
    found = {**fields, "path": f"/lake/{name}", "name": name, "layer": name, **known}
    return TableState(**found)  # type: ignore[arg-type]


def test_offsets_tables_and_batches_are_shown(browser: Browser, console: ScriptedConsole) -> None:
    damage = "/lake/quarantine does not read: <b>the log is damaged</b>"
    pipeline = Pipeline(
        name="<i>shop</i>",
        folder="/lake",
        topics=[progress(60, 73)],
        tables=[
            table("bronze", version=5, rows=5_000, files=5, batch=4, written_ms=T0),
            table("silver", version=1, rows=8, files=1, batch=0, written_ms=T0, quarantined=2),
            table("gold"),
            table("quarantine", error=damage),
        ],
        batches=[
            Batch(table="bronze", number=5, state="planned", at_ms=T0, sources=[progress(60, None)])
        ],
        error="pipeline.toml: line 3",
    )
    console.answers["/api/tables"] = asdict(Tables(at_ms=T0, pipelines=[pipeline]))
    opened(browser, console, "tables")
    browser.wait_text("main", "pipeline.toml: line 3")
    browser.wait_text("main h2", "<i>shop</i>")
    (row,) = browser.texts(".topics tbody tr")
    assert row.split() == ["orders-0", "60", "73", "13"]
    bronze, silver, gold, quarantine = browser.texts(".table-state")
    assert "version 5" in bronze
    assert "5,000" in bronze
    assert silver.splitlines()[silver.splitlines().index("quarantined") + 1] == "2"
    assert gold.split("\n\n") == ["gold", "not made yet"]
    assert quarantine.splitlines()[-1] == damage
    (batch,) = browser.texts("main .chip")
    assert batch == "planned"
    assert browser.complaints() == []


def test_a_search_shows_its_first_partition(browser: Browser, console: ScriptedConsole) -> None:
    opened(browser, console, "board")
    browser.wait("document.querySelector('[data-partition=\"orders-0\"]')")
    browser.js("const m = document.querySelector('.matrix'); m.scrollTop = m.scrollHeight")
    browser.wait("document.querySelector('[data-partition=\"payments-99\"]')")
    browser.type("input", "pay")
    browser.wait("document.querySelector('[data-partition=\"payments-0\"]')")
    assert browser.js("return document.querySelector('.matrix').scrollTop") == 0
