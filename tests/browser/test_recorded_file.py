"""A saved selection is one file, which replays in a browser without a server."""

import dataclasses
import json
from pathlib import Path

import pytest

import strandline_console
from strandline_bench.console.browser import Browser
from strandline_console.messages import MESSAGES_VERSION
from strandline_console.serving.trace import trace_file
from support import console_scenes as scenes
from support.console_gallery import pipeline
from support.scripted_console import ScriptedConsole

pytestmark = pytest.mark.browser

T0 = 1_780_000_000_000
STATIC = Path(strandline_console.__file__).parent / "static"
CELL = '[data-partition="orders:2"] [data-broker="3"]'


@dataclasses.dataclass
class _Recording:
    """A `Trace` whose parts are JSON already."""

    version: int
    build: str
    made_ms: int
    from_ms: int
    to_ms: int
    keyframe: dict[str, object]
    deltas: list[dict[str, object]]
    events: list[dict[str, object]]


def recorded(version: int = MESSAGES_VERSION) -> bytes:
    """A kill of broker 3 after five seconds of ten."""
    state = scenes.cluster(T0, {"orders": 6})
    state.pipelines["/lake/pipeline.toml"] = pipeline(1)
    script = ScriptedConsole(state, T0)
    script.change(T0 + 2000)
    script.state.pipelines["/lake/pipeline.toml"] = pipeline(2)
    scenes.kill(script.state, 3, T0 + 5000)
    hostile = "</script><img src=x onerror=alert(1)> is lost."
    script.change(T0 + 5000, scenes.event("server", hostile, broker=3))
    script.change(T0 + 7000, *scenes.fence(script.state, 3, T0 + 7000))
    script.change(T0 + 10_000)
    trace = _Recording(
        version=version,
        build="another build",
        made_ms=T0,
        from_ms=T0,
        to_ms=T0 + 10_000,
        keyframe=script.keyframe(0, {}),
        deltas=[frame.delta for frame in script.frames[1:]],
        events=script.events,
    )
    return trace_file(trace, STATIC)  # type: ignore[arg-type]


def test_a_recorded_file_replays_without_a_server(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "kill.html"
    path.write_bytes(recorded())
    browser.open(path.as_uri())
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'no'", CELL)
    browser.open(f"{path.as_uri()}#/board?at={T0 + 3000}")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'yes'", CELL)
    browser.press("body", "k")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'no'", CELL)
    browser.open(f"{path.as_uri()}#/timeline")
    browser.wait_text(".events", "</script><img src=x onerror=alert(1)> is lost.")
    browser.open(f"{path.as_uri()}#/partition/orders:2?at={T0 + 8000}")
    browser.wait_text('[data-testid="lane-3"]', "the controller has fenced it")
    for second, rows in ((3, "9,000"), (8, "18,000")):
        browser.open(f"{path.as_uri()}#/tables?at={T0 + 1000 * second}")
        browser.wait_text(".table-state", rows)
    assert browser.js("return performance.getEntriesByType('resource').map(e => e.name)") == []
    assert [one for one in browser.complaints() if "favicon" not in one] == []


def test_a_file_of_another_version_is_refused(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "old.html"
    path.write_bytes(recorded(version=MESSAGES_VERSION + 6))
    browser.open(path.as_uri())
    browser.wait_text("body", f"This recording has version {MESSAGES_VERSION + 6} (another build)")
    browser.wait_text("body", f"replays version {MESSAGES_VERSION}")


@pytest.mark.parametrize("content", ["", "null", "[]", "{}", '{"version":1,"keyfr'])
def test_a_damaged_file_is_refused(browser: Browser, tmp_path: Path, content: str) -> None:
    page = recorded().decode()
    before, _, rest = page.partition('id="strandline-trace">')
    path = tmp_path / "damaged.html"
    path.write_text(f'{before}id="strandline-trace">{content}{rest[rest.index("</script>") :]}')
    browser.open(path.as_uri())
    browser.wait_text("body", "The recording in this file is damaged or cut short.")


def test_a_file_names_its_trace_before_its_script() -> None:
    text = recorded().decode()
    assert text.index('id="strandline-trace"') < text.rindex("<script>")
    assert json.loads(text.split('id="strandline-trace">')[1].split("</script>")[0])
