"""Takes a picture of every page of the console, in both themes and at two widths, to be looked at.

The pages show a cluster that is made by hand (tests/support/console_gallery.py). It takes Chromium
and its driver. The pictures stand in a folder, by default build/screenshots.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from strandline_bench.console.browser import Browser, chromium  # noqa: E402
from support.console_gallery import PAGES, gallery  # noqa: E402

WIDTHS = {1280: 860, 390: 844}
"""The height of the window at each width."""
THEMES = ("light", "dark")


def take(browser: Browser, address: str, page: str, width: int) -> bytes:
    """The picture of one page, as long as the page is."""
    browser.resize(width, WIDTHS[width])
    browser.open(f"{address}/#/{PAGES[page]}")
    browser.wait("document.querySelector('main')?.innerText.length > 20")
    browser.wait("document.querySelector('main .card') !== null")
    height = browser.js("return document.querySelector('main').scrollHeight + 160")
    browser.resize(width, min(2600, max(WIDTHS[width], int(height))))
    browser.js("return new Promise(done => setTimeout(() => done(1), 250))")
    return browser.picture()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--only", choices=tuple(PAGES), action="append", help="may be repeated")
    given = parser.parse_args()
    folder, pages = given.folder, given.only or PAGES
    folder.mkdir(parents=True, exist_ok=True)
    with gallery() as console, chromium() as browser:
        for theme in THEMES:
            browser.prefer(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
            for width in WIDTHS:
                for page in pages:
                    file = folder / f"{page}-{theme}-{width}.png"
                    file.write_bytes(take(browser, console.address, page, width))
                    print(file)


if __name__ == "__main__":
    main()
