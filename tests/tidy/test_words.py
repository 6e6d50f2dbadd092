"""House rules on what may stand in the text: nothing unfinished, no machine, no package index."""

import re

import pytest

from support.tidy_tree import ROOT, name_of, python_files, text_files

# A class of one letter here and there, so that this file does not break its own rules.
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b|NotImplemente[d]Error")
OF_THIS_MACHINE = re.compile(r"(?<![\w.~$}])/(?:wor[k]|hom[e]|roo[t]|User[s])/")
PACKAGE_INDEX = re.compile(
    r"(?<![\w-])--?(?:extra-)?inde[x]-url|(?<![\w-])--find-link[s]|--trusted-hos[t]"
    r"|pyp[i]\.org|registry\.npmj[s]|crate[s]\.io|maven\.apach[e]|proxy\.golan[g]",
    re.IGNORECASE,
)
OF_ANOTHER_PLACE = re.compile(
    r"(?<!\w)(?:REPLICATIO[N]|COORDINATIO[N]|SIMULATIO[N]|DESIG[N]|STYL[E]|SPAR[K])\.md"
    r"|(?<=[a-z] )\([34]\.\d{1,2}(?:\)|, [IP]-)"
)
CITATION = re.compile(r"(?<![\w-])([DIP])-(\d+)\b")
BANNER = re.compile(r"^\s*#\s*[-=*#~]{4,}", re.MULTILINE)
BARE_SUPPRESSION = re.compile(r"#\s*(?:noqa(?!: ?[A-Z])|type: ignore(?!\[))")


def lines_with(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


@pytest.fixture(scope="module")
def code() -> dict[str, str]:
    return {name_of(path): path.read_text("utf-8") for path in python_files()}


@pytest.fixture(scope="module")
def everything() -> dict[str, str]:
    return {name_of(path): path.read_text("utf-8", errors="replace") for path in text_files()}


def test_nothing_is_left_unfinished(code: dict[str, str]) -> None:
    assert lines_with(UNFINISHED, code) == []


def test_no_path_of_one_machine_stands_in_the_tree(everything: dict[str, str]) -> None:
    assert lines_with(OF_THIS_MACHINE, everything) == []


def test_no_address_of_a_package_index_stands_in_the_tree(everything: dict[str, str]) -> None:
    assert lines_with(PACKAGE_INDEX, everything) == []


def test_no_line_names_a_document_that_is_not_here(everything: dict[str, str]) -> None:
    assert lines_with(OF_ANOTHER_PLACE, everything) == []


def test_every_rule_that_is_cited_stands_in_the_list_of_rules(everything: dict[str, str]) -> None:
    rules = (ROOT / "docs" / "internals" / "invariants.md").read_text("utf-8")
    listed = re.findall(r"^\| ([IP]-\d+) \|", rules, re.MULTILINE)
    assert len(listed) == len(set(listed)) > 150
    unknown = {
        f"{name}: {letter}-{number}"
        for name, text in everything.items()
        for letter, number in CITATION.findall(text)
        if f"{letter}-{number}" not in listed
    }
    assert unknown == set()


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "internals" / "adr"
    index = (folder / "README.md").read_text("utf-8")
    missing = [p.name for p in folder.glob("0*.md") if f"({p.name})" not in index]
    assert missing == []


def test_the_readme_stops_the_cluster_after_its_last_use() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme.index("    strandline down\n") > readme.index("```python")


def test_comments_have_no_banners(code: dict[str, str]) -> None:
    assert lines_with(BANNER, code) == []


def test_a_silenced_check_names_which(code: dict[str, str]) -> None:
    assert lines_with(BARE_SUPPRESSION, code) == []


def test_every_requirement_is_pinned_and_hashed() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        joined = path.read_text("utf-8").replace("\\\n", " ")
        for line in joined.splitlines():
            requirement = line.split("#")[0].strip()
            if requirement:
                assert re.fullmatch(
                    r"[A-Za-z0-9._-]+==[\w.+!]+(?: ;[^#]*?)?(?:\s+--hash=sha256:[0-9a-f]{64})+",
                    requirement,
                ), f"{name_of(path)}: {requirement[:80]}"


def test_the_container_gets_the_versions_that_were_tested() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / name).read_text("utf-8")
        return set(re.findall(r"^([A-Za-z0-9._-]+==\S+)", text, re.MULTILINE))

    everything = pins("all.txt")
    for part in ("runtime.txt", "spark.txt", "build.txt"):
        assert pins(part) <= everything, f"{part} differs from all.txt: run `make lock`"
