"""One browser for all tests of pages; each test opens its page afresh."""

from collections.abc import Iterator

import pytest

from strandline_bench.console.browser import Browser, chromium
from support.cluster import make_cluster

__all__ = ["browser", "make_cluster"]


@pytest.fixture(scope="session")
def _browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(_browser: Browser) -> Iterator[Browser]:
    _browser.resize(1280, 860)
    _browser.prefer(prefers_color_scheme="light", prefers_reduced_motion="no-preference")
    _browser.complaints()
    yield _browser
    _browser.open("about:blank")
