"""The site of the documents: its pages, the pages of folders, and the check of its links."""

import re
from pathlib import Path

import pytest

import docs_site
from support.tidy_tree import ROOT, name_of


def test_pages_keep_their_paths_and_a_linked_folder_gets_a_page(tmp_path: Path) -> None:
    root, to = tmp_path / "root", tmp_path / "to"
    for name in docs_site.SHOWN:
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("A text.")
    (root / "examples").mkdir()
    (root / "deploy" / "units").mkdir(parents=True)
    (root / "deploy" / "units" / "a.service").write_text("[Service]\n")
    (root / "docs" / "guide").mkdir(parents=True)
    page = "[units](../../deploy/units) [code](a.py#b) [site](https://a.b/c) [top](#top)"
    (root / "docs" / "guide" / "a.md").write_text(page)
    docs_site.lay_pages(root, to)
    laid = (to / "docs" / "guide" / "a.md").read_text()
    assert laid == page.replace("deploy/units", "deploy/units/README.md")
    shown = (to / "deploy" / "units" / "README.md").read_text()
    assert shown == "# deploy/units\n\n## a.service\n\n```ini\n[Service]\n```\n"


@pytest.mark.parametrize(
    ("link", "is_dead"),
    [
        ("other/", False),
        ("other/index.html#there", False),
        ("other/#gone", True),
        ("#here", False),
        ("#gone", True),
        ("gone/", True),
        ("picture%201.svg", False),
        ("picture 2.svg", True),
        ("https://example.com/gone", False),
        ("mailto:a@example.com", False),
        (".", False),
    ],
)
def test_a_link_to_what_is_missing_is_found(tmp_path: Path, link: str, *, is_dead: bool) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h2 id="there">There</h2>')
    (tmp_path / "picture 1.svg").touch()
    (tmp_path / "index.html").write_text(f'<p id="here"><a href="{link}">a link</a></p>')
    assert list(docs_site.dead_links(tmp_path)) == ([("index.html", link)] if is_dead else [])


def test_the_navigation_names_each_page_of_the_documents_once() -> None:
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    named = re.findall(r": (\S+\.md)$", settings.partition("\nnav:\n")[2], re.MULTILINE)
    assert len(named) == len(set(named))
    pages = {name_of(path) for path in (ROOT / "docs").rglob("*.md")}
    decisions = {page for page in pages if page.startswith("docs/internals/adr/0")}
    assert set(named) >= pages - decisions
    assert [page for page in named if not (ROOT / page).is_file()] == []
