"""No page is wider than its window, in either theme, at the width of a desk and of a phone."""

from collections.abc import Iterator

import pytest

from strandline_bench.console.browser import Browser
from support.console_gallery import PAGES, gallery
from support.scripted_console import ScriptedConsole

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def console() -> Iterator[ScriptedConsole]:
    with gallery() as script:
        yield script


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        pytest.param("light", 390, marks=pytest.mark.proof),
        pytest.param("dark", 1280, marks=pytest.mark.proof),
    ],
)
def test_each_page_is_as_wide_as_its_window(
    browser: Browser, console: ScriptedConsole, theme: str, width: int
) -> None:
    browser.prefer(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
    browser.resize(width, 800)
    for page, route in PAGES.items():
        browser.open(f"{console.address}/#/{route}")
        browser.wait("document.querySelector('main .card, main .matrix') !== null")
        wide = browser.js("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{page} is {wide} px wider than its window"
    assert browser.complaints() == []


def test_each_page_is_in_the_gallery(browser: Browser, console: ScriptedConsole) -> None:
    browser.open(console.address)
    browser.wait("document.querySelector('.tabs a') !== null")
    tabs = browser.js("return document.querySelectorAll('.tabs a').length")
    assert tabs == len(PAGES)
