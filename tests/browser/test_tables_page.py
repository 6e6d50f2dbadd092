"""The page of tables, and the search of the board, against answers that are made by hand."""

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from strandline_bench.console.browser import Browser
from strandline_console.answers import Meta
from strandline_console.messages import MESSAGES_VERSION
from strandline_console.pipelines import Batch, Pipeline, Planned, TableState
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


def table(name: str, **known: object) -> TableState:
    fields = dict.fromkeys(("version", "rows", "files", "batch", "written_ms", "quarantined"))
    found = {**fields, "path": f"/lake/{name}", "name": name, "layer": name, **known}
    return TableState(**found)  # type: ignore[arg-type]


def test_offsets_tables_and_batches_are_shown(browser: Browser, console: ScriptedConsole) -> None:
    damage = "/lake/quarantine does not read: <b>the log is damaged</b>"
    pipeline = Pipeline(
        name="<i>shop</i>",
        folder="/lake",
        topics=[Planned(topic="orders", partition=0, planned=1_190)],
        tables=[
            table("bronze", version=5, rows=5_000, files=5, batch=4, written_ms=T0),
            table("silver", version=1, rows=8, files=1, batch=0, written_ms=T0, quarantined=2),
            table("gold"),
            table("quarantine", error=damage),
        ],
        batches=[
            Batch(
                table="bronze",
                number=5,
                state="planned",
                at_ms=T0,
                sources=[Planned(topic="orders", partition=0, planned=1_190)],
            )
        ],
        error="pipeline.toml: line 3",
    )
    console.state.pipelines["/lake/pipeline.toml"] = pipeline
    console.change(T0 + 1000)
    opened(browser, console, "tables")
    browser.wait_text("main", "pipeline.toml: line 3")
    browser.wait_text("main h2", "<i>shop</i>")
    browser.wait_text(".topics tbody tr", "1,196")
    (row,) = browser.texts(".topics tbody tr")
    assert row.split() == ["orders:0", "1,190", "1,196", "6"]
    bronze, silver, gold, quarantine = browser.texts(".table-state")
    assert "version 5" in bronze
    assert "5,000" in bronze
    assert silver.splitlines()[silver.splitlines().index("quarantined") + 1] == "2"
    assert gold.split("\n\n") == ["gold", "not made yet"]
    assert quarantine.splitlines()[-1] == damage
    (batch,) = browser.texts("main .chip")
    assert batch == "planned"
    assert browser.complaints() == []


def bronze_at(batch: int) -> Pipeline:
    return Pipeline(
        name="shop",
        folder="/lake",
        topics=[Planned(topic="orders", partition=0, planned=100 * batch)],
        tables=[table("bronze", version=batch, rows=1_000 * batch, files=batch, batch=batch)],
        batches=[],
    )


def test_tables_are_shown_at_every_instant(browser: Browser, console: ScriptedConsole) -> None:
    for batch in (1, 2):
        console.state.pipelines["/lake/pipeline.toml"] = bronze_at(batch)
        console.change(T0 + 10_000 * batch)
    console.change(T0 + 30_000)
    opened(browser, console, "tables")
    browser.wait_text(".table-state", "2,000")
    for batch in (1, 2):
        browser.open(f"{console.address}/#/tables?at={T0 + 10_000 * batch + 500}")
        browser.wait_text(".table-state", f"{batch},000")
        assert browser.js("return document.querySelector('.table-state .unknown')") is not None
        (row,) = browser.texts(".topics tbody tr")
        assert row.split()[1] == f"{batch}00"
    browser.open(f"{console.address}/#/tables?at={T0 + 5_000}")
    browser.wait_text("main", "The tables had not been read at this instant.")
    assert browser.complaints() == []


def test_files_that_do_not_answer_are_named(browser: Browser, console: ScriptedConsole) -> None:
    console.state.pipelines["/lake/pipeline.toml"] = bronze_at(1)
    console.state.pipelines["/lake/pipeline.toml"].unread = "The disk <i>sleeps</i>."
    console.change(T0 + 1000)
    opened(browser, console, "tables")
    browser.wait_text("main [role=alert]", "The disk <i>sleeps</i>. What is shown was read before.")


def test_a_console_without_a_pipeline_says_how_to_name_one(
    browser: Browser, console: ScriptedConsole
) -> None:
    console.answers["/api/meta"] = asdict(META) | {"has_tables": False}
    opened(browser, console, "tables")
    browser.wait_text("main", "give --pipeline with the folder of a pipeline.toml")


def test_a_search_shows_its_first_partition(browser: Browser, console: ScriptedConsole) -> None:
    opened(browser, console, "board")
    browser.wait("document.querySelector('[data-partition=\"orders:0\"]')")
    browser.js("const m = document.querySelector('.matrix'); m.scrollTop = m.scrollHeight")
    browser.wait("document.querySelector('[data-partition=\"payments:99\"]')")
    browser.type("input", "pay")
    browser.wait("document.querySelector('[data-partition=\"payments:0\"]')")
    assert browser.js("return document.querySelector('.matrix').scrollTop") == 0
