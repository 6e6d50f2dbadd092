"""House rules on what documents point at: every link, file and heading that they name is there."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from support.tidy_tree import ROOT, name_of, python_files, text_files

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CITED_FILE = re.compile(r"`([\w/.-]*\w\.(?:py|proto|md|sh))`")
RECIPE = re.compile(r"^### (.+)\n\nFiles: (.+)$", re.MULTILINE)
RECIPES = {
    "A configuration key",
    "An RPC",
    "A metric",
    "A command",
    "A listener",
    "A page of the console",
    "An error",
}
ARCHITECTURE = ROOT / "docs" / "internals" / "architecture.md"
ORACLES = ROOT / "proof" / "strandline_proof" / "sim" / "oracles"
RULE = re.compile(r"^\| (I-\d+) \|.*\| ([^|]*) \|$", re.MULTILINE)
STEP = re.compile(r"step ((?:`[\w/]+\.py`(?:, )?)+)")

DOCUMENTS = [path for path in text_files() if path.suffix == ".md"]


def anchors(path: Path) -> set[str]:
    """The headings of a document, as a link names them."""
    headings = HEADING.findall(FENCED.sub("", path.read_text("utf-8")))
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def dead_links(path: Path) -> Iterator[str]:
    for link in LINK.findall(FENCED.sub("", path.read_text("utf-8"))):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert list(dead_links(document)) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_file_that_a_document_names_is_there(document: Path) -> None:
    cited = set(CITED_FILE.findall(document.read_text("utf-8")))
    assert {file for file in cited if file not in ends_of_names()} == set()


@cache
def ends_of_names() -> set[str]:
    """Each file's name with all, some and none of its folders."""
    names = [name_of(path).split("/") for path in {*text_files(), *python_files()}]
    return {"/".join(parts[first:]) for parts in names for first in range(len(parts))}


def paths_of_requests() -> dict[str, list[tuple[str, str]]]:
    """The (room, file) rows of each path in architecture.md, by the text before the table."""
    paths, room, title = dict[str, list[tuple[str, str]]](), "", ""
    for line in ARCHITECTURE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line == "| room | file | what happens there |":
            paths[title] = []
        elif not line.startswith("|"):
            title = line or title
        elif len(cells) == 3 and title in paths and not line.startswith("|---"):
            room = cells[0].strip("`") or room
            paths[title] += [(room, file) for file in CITED_FILE.findall(cells[1])]
    return paths


def test_the_path_of_a_request_enters_a_room_once() -> None:
    paths = paths_of_requests()
    assert len(paths) == 9
    for title, rows in paths.items():
        rooms = [room for room, _ in groupby(rows, key=itemgetter(0))]
        assert len(rooms) == len(set(rooms)), title
        for room, file in rows:
            path = file if file.startswith(room) else f"{room}{file}"
            assert (ROOT / "broker" / "strandline_broker" / path).is_file(), path


def test_each_recipe_names_at_most_two_files_which_exist() -> None:
    recipes = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Recipes\n")[2]
    named = {
        title: CITED_FILE.findall(files)
        for title, files in RECIPE.findall(recipes.partition("\n## ")[0])
    }
    assert set(named) == RECIPES
    for title, files in named.items():
        assert 1 <= len(files) <= 2, title
        assert [file for file in files if not (ROOT / file).is_file()] == [], title


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = [link.partition("#")[0] for link in LINK.findall(page.read_text("utf-8"))]
        pages = {(page.parent / link).resolve() for link in links if link.endswith(".md")}
        waiting += [each for each in pages if each.is_file() and each not in reached]
    assert [name_of(p) for p in (ROOT / "docs").rglob("*.md") if p not in reached] == []


def test_an_oracle_that_a_rule_names_knows_that_rule() -> None:
    rules = (ROOT / "docs" / "internals" / "invariants.md").read_text("utf-8")
    unknown = [
        f"{rule}: {file}"
        for rule, checked_by in RULE.findall(rules)
        for files in STEP.findall(checked_by)
        for file in re.findall(r"`([\w/]+\.py)`", files)
        if not any(re.search(rf"{rule}\b", path.read_text("utf-8")) for path in oracles(file))
    ]
    assert unknown == []


def oracles(file: str) -> list[Path]:
    """The files of that name: among the oracles, or the one that calls them."""
    return [*ORACLES.rglob(file), *ORACLES.parent.glob(f"run/{file}")]
