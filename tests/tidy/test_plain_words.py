"""House rules on how texts are written: short sentences, and docstrings that open with a subject.

The rules measure what a program can measure. The rest is in CONTRIBUTING.md and in review.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import pytest

import strandline
import strandline.sync
from support.tidy_tree import ROOT, SOURCE_ROOTS, name_of, python_files, syntax

MEDIAN_WORDS_MAX = 17
SENTENCE_WORDS_MAX = 45

# Documents, files and folders (with all below them) whose words are not yet rewritten. The lists
# only shrink: the change that rewrites one deletes its line.
LONG_DOCUMENTS: set[str] = set()
SUBJECTLESS: set[str] = set()

OPENERS = re.compile(
    r"""who|whose|whom|what|whether|which|where|when|how|why  # a question is no subject
    |it|its|they|them|their|he|she|those|that  # a pronoun without an antecedent
    |nobody|whoever|whatever|anybody|somebody|everybody
    |as|of|in|on|at|by|for|from|to|until|till|beside|behind|below|above|under|over|with|without
    |within|up|per|than  # a preposition
    |after|before|once|since|because|though|although|and|or|but|not|so|such|if|while|during
    |there|here""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words that open a docstring without its subject.

Absent on purpose: "the", "a", "this", "these", "no", "one", "all", "each" and "nothing", which can
belong to a subject. A name in backticks, a number and a word with a hyphen ("In-sync replicas")
are subjects too. A subject after an opening clause ("In a compacted topic, the cleaner ...") is
refused all the same: it comes first.
"""

FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
HEADING_OR_TABLE = re.compile(r"^(?:#.*| *\|.*)$", re.MULTILINE)
ITEM = re.compile(r"^(?: *> ?)? *(?:[-*+]|\d+[.)]) +", re.MULTILINE)
INDENTED = re.compile(r" {4,}(?![-*+\d ])")
CODE = re.compile(r"`+[^`]*`+")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"[.!?][)\"'*_]*\s+(?=[\"'(*_\[]*[A-Z0-9])")
FIRST_WORD = re.compile(r"[(\"'*]*(`|[\w-]+)")


def sentences(document: str) -> Iterator[str]:
    """The sentences of paragraphs and list items; a span of code counts as one word."""
    text = COMMENT.sub("", FENCED.sub("\n\n", document))
    text = CODE.sub("Code", LINK.sub(r"\1", HEADING_OR_TABLE.sub("\n", text)))
    text = text.replace("e.g. ", "").replace("i.e. ", "")
    for block in re.split(r"\n(?: *\n)+", text):
        if INDENTED.match(block):
            continue
        for item in ITEM.split(block):
            yield from (" ".join(each.split()) for each in END.split(item) if each.strip())


def words(sentence: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def faults_of_length(document: str) -> list[str]:
    counted = [(words(sentence), sentence) for sentence in sentences(document)]
    faults = [f"{count} words: {text}" for count, text in counted if count > SENTENCE_WORDS_MAX]
    middle = median(count for count, _ in counted) if counted else 0
    if middle > MEDIAN_WORDS_MAX:
        faults.append(f"the median sentence has {middle} words")
    return faults


def public_docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, docstring) of a module, of its public names and of theirs."""

    def walk(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, str]]:
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if child.name.startswith("_"):
                    continue
                yield f"{prefix}{child.name}", ast.get_docstring(child) or ""
                if isinstance(child, ast.ClassDef):
                    yield from walk(child, f"{prefix}{child.name}.")

    yield "module", ast.get_docstring(tree) or ""
    yield from walk(tree, "")


def lacks_a_subject(docstring: str) -> bool:
    first = FIRST_WORD.match(docstring)
    return first is not None and OPENERS.fullmatch(first[1]) is not None


def rewritten(paths: Iterable[Path], listed: set[str]) -> list[Path]:
    return [path for path in paths if not any(path.is_relative_to(ROOT / each) for each in listed)]


DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("document", rewritten(DOCUMENTS, LONG_DOCUMENTS), ids=name_of)
def test_the_sentences_of_a_document_are_short(document: Path) -> None:
    assert faults_of_length(document.read_text("utf-8")) == []


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_public_docstring_opens_with_its_subject(root: str) -> None:
    faults = [
        f"{name_of(path)}: {name}: {docstring.splitlines()[0]}"
        for path in rewritten(python_files(), SUBJECTLESS)
        if path.is_relative_to(ROOT / root)
        for name, docstring in public_docstrings(syntax(path))
        if lacks_a_subject(docstring)
    ]
    assert faults == []


@pytest.mark.parametrize("home", [strandline, strandline.sync], ids=lambda home: home.__name__)
@pytest.mark.parametrize("client", ["Admin", "Consumer", "ConsumerRebalanceListener", "Producer"])
def test_every_public_method_of_a_client_has_a_docstring(home: object, client: str) -> None:
    members = inspect.getmembers(getattr(home, client), callable)
    public = [(name, member) for name, member in members if not name.startswith("_")]
    assert public
    assert [name for name, member in public if not inspect.getdoc(member)] == []


def test_what_is_listed_as_not_yet_rewritten_exists() -> None:
    listed = LONG_DOCUMENTS | SUBJECTLESS
    assert {name for name in listed if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(
    "docstring",
    ["Whose appends wait.", "It ends.", "By offset.", "'What' opens it.", "Of a segment."],
)
def test_an_opening_without_a_subject_is_found(docstring: str) -> None:
    assert lacks_a_subject(docstring)


@pytest.mark.parametrize(
    "docstring",
    ["The leader.", "`By` sorts rows.", "In-sync replicas.", "(name, lines)", "No batch.", ""],
)
def test_an_opening_with_a_subject_passes(docstring: str) -> None:
    assert not lacks_a_subject(docstring)


def test_only_prose_is_counted() -> None:
    document = (
        "# A heading\n\n"
        "One two three, `code of many words`\nfive. A [link text](to.md) here!\n\n"
        "| a table | of words |\n\n```\nfenced code. More.\n```\n\n    indented code. More.\n\n"
        "- an item\n  of two lines (e.g. one)\n    - a nested item:\n      4.5 is no end.\n"
    )
    assert [words(sentence) for sentence in sentences(document)] == [5, 4, 6, 7]


def test_a_long_sentence_and_a_long_median_are_found() -> None:
    assert faults_of_length("word " * 45 + ".\n\nShort.\n\nShort.") == []
    assert len(faults_of_length("word " * 46 + ".\n\nShort.\n\nShort.")) == 1
    assert faults_of_length("word " * 17 + ".") == []
    assert faults_of_length("word " * 18 + ".") == ["the median sentence has 18 words"]
