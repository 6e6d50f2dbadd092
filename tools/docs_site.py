"""Builds the site of the documents from the pages of the repository, and checks its links.

The pages keep their paths, so that a link works on both. A link to a folder gets a page that shows
the folder's files. MkDocs is strict about links between pages. After it, this program reads the
pages that were built: each link to the site and each anchor must be there.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "docs-site"
SITE = ROOT / "site"
SHOWN = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "examples"),
    *("proof/planted-bugs.md", "tests/sim/corpus/README.md", "deploy/kubernetes/strandline.yaml"),
)
"""What the site shows, beside the folders that pages link to."""
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=\))")
LANGUAGES = {".service": "ini", ".yml": "yaml", ".json": "json", ".py": "python"}
SHOWN_BYTES_MAX = 20_000
BUILD_S = 600


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="docs_site.py", description=__doc__)
    parser.add_argument("--pages-only", action="store_true", help="lay the pages, build no site")
    chosen = parser.parse_args(words)
    lay_pages(ROOT, PAGES)
    if chosen.pages_only:
        return 0
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(build, cwd=ROOT, env=environ, timeout=BUILD_S, check=False).returncode != 0:
        return 1
    dead = sorted(dead_links(SITE))
    for page, link in dead:
        sys.stderr.write(f"error: {page} links to {link}, which is not there\n")
    if dead:
        return 1
    sys.stdout.write(f"{sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}/\n")
    return 0


def lay_pages(root: Path, to: Path) -> None:
    """Copies what the site shows to another folder, and adds a page for each linked folder."""
    shutil.rmtree(to, ignore_errors=True)
    for name in SHOWN:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / name, to / name, ignore=ignored)
        else:
            shutil.copy(root / name, to / name)
    for page in sorted(to.rglob("*.md")):
        _link_folders(page, root, to)


def _link_folders(page: Path, root: Path, to: Path) -> None:
    def replaced(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve().relative_to(to.resolve())
        if not (root / target).is_dir():
            return found[1]
        (to / target).mkdir(parents=True, exist_ok=True)
        if not (to / target / "README.md").exists():
            (to / target / "README.md").write_text(shown(root / target, target), "utf-8")
        return f"{found[1].rstrip('/')}/README.md"

    text = page.read_text("utf-8")
    page.write_text(LINK.sub(replaced, text), "utf-8")


def shown(folder: Path, name: Path) -> str:
    """The page of a folder: the text of its files."""
    parts = [f"# {name}\n"]
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = file.read_text("utf-8")
        parts.append(f"## {file.relative_to(folder)}\n")
        if len(text) > SHOWN_BYTES_MAX:
            parts.append(f"{len(text)} characters, not shown here.\n")
        else:
            parts.append(f"```{LANGUAGES.get(file.suffix, 'text')}\n{text.rstrip()}\n```\n")
    return "\n".join(parts)


class Page(HTMLParser):
    """The links of a page, and the anchors to which others may link."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links = set[str]()
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.add(value)
            if name in ("id", "name") and value is not None:
                self.anchors.add(value)


def dead_links(site: Path) -> Iterator[tuple[str, str]]:
    """(page, link) of each link within the site whose file or anchor is missing."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        if path.name == "404.html":  # it is shown at any address, so its links begin with a slash
            continue
        for link in page.links:
            file, anchor = urldefrag(link)
            if re.match(r"[a-z]+:|//", link):
                continue
            target = (path.parent / unquote(file)).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            known = target in pages and unquote(anchor) in pages[target].anchors
            if not known and (target in pages or not target.is_file()):
                yield str(path.relative_to(site.resolve())), link


if __name__ == "__main__":
    sys.exit(main())
