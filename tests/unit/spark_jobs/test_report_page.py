"""The report page: what it says of tables, that nothing in them becomes markup, and bad input."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable, write_deltalake

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.commands.main import main
from support.report_tables import account, write_audit, write_quarantine, write_silver
from support.spark_tables import take

if TYPE_CHECKING:
    from pathlib import Path


class Page(HTMLParser):
    """The tags, the attributes and the text that a browser would see."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def report(*tables: str, output: Path) -> Page:
    with pytest.raises(SystemExit) as ended:
        main(["report", *tables, "--output", str(output)])
    assert ended.value.code == 0
    return Page(output.read_text("utf-8"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which the command ends."""
    with pytest.raises(SystemExit) as ended:
        main(["report", *arguments])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def bronze(tmp_path: Path) -> str:
    root = str(tmp_path / "lake" / "bronze")
    for start in (0, 10, 20):
        take(root, start, start + 10)
    return root


def test_it_says_what_the_log_says_where_nothing_was_copied_yet(
    bronze: str, tmp_path: Path
) -> None:
    page = report(bronze, output=tmp_path / "page.html")
    assert "Every range begins where the one before ended, and nothing is lost." in page.text
    assert "lake/bronze" in page.text
    assert "0 to 30" in page.text
    assert "The newest 3 of 3 ranges" in page.text
    assert "the commits do not say how far the topic reached" in page.text


def test_commits_that_are_not_copied_follow_those_that_are(bronze: str, tmp_path: Path) -> None:
    write_audit(bronze, [account(1, 0, 0, 10), account(2, 30, 10, 20, lag=7)])
    page = report(bronze, output=tmp_path / "page.html")
    assert "The newest 3 of 3 ranges" in page.text
    assert "0 to 30" in page.text
    write_audit(bronze, [account(3, 60, 20, 30, lag=4321)])
    page = report(bronze, output=tmp_path / "page.html")
    assert "The newest 3 of 3 ranges" in page.text
    assert "2026-01-01 12:01:00" in page.text
    assert {"4,321", "median between commits", "30 s"} <= set(page.texts)


def test_what_is_lost_or_does_not_join_stands_first(bronze: str, tmp_path: Path) -> None:
    ranges = [account(1, 0, 0, 10), account(2, 1, 10, 20, lost=3), account(3, 2, 25, 30)]
    write_audit(bronze, ranges)
    page = report(bronze, output=tmp_path / "page.html")
    assert "t:0: retention took 3 offsets before they were read" in page.text
    assert "t:0: 1 range did not begin where the one before ended" in page.text
    assert "Look at this." in page.text


def test_of_many_partitions_those_that_need_a_look_stand_open(bronze: str, tmp_path: Path) -> None:
    ranges = [account(3, 0, 0, 10, partition=p, lag=p) for p in range(40)]
    ranges[3]["lost"] = 1
    write_audit(bronze, ranges)
    page = report(bronze, output=tmp_path / "page.html")
    begin, end = page.texts.index("Audit: the 16 partitions that need a look most"), len(page.texts)
    named = [text for text in page.texts[begin:end] if text.startswith("t:")]
    assert named[:3] == ["t:3", "t:39", "t:38"]
    assert named[16:56] == [f"t:{p}" for p in range(40)]
    assert "All 40 partitions" in page.text


@pytest.mark.parametrize("suffix", ["", "_orders"])
def test_a_quarantine_beside_silver_comes_along_with_its_reasons(
    tmp_path: Path, suffix: str
) -> None:
    lake = tmp_path / "lake"
    write_silver(str(lake / f"silver{suffix}"), 100)
    rows = [("t", "not json", "at column 1", b"{")] * 2 + [("t", "wrong type", "delay", b"[]")]
    for part in (rows, rows[:1]):
        write_quarantine(str(lake / f"quarantine{suffix}"), part)
    page = report(str(lake / f"silver{suffix}"), output=tmp_path / "page.html")
    at = [page.texts.index(one) for one in ("3 (75.0 %)", "1 (25.0 %)")]
    assert at == sorted(at)
    assert page.texts[at[0] - 1] == "not json"
    assert {"at column 1", "{", "wrong type", "[]"} <= set(page.texts)
    # Named as well, it is there once.
    both = [str(lake / f"{name}{suffix}") for name in ("quarantine", "silver")]
    again = report(*both, output=tmp_path / "page.html")
    assert again.texts.count("3 (75.0 %)") == 1


def test_an_empty_table_among_others_is_told_in_a_sentence(bronze: str, tmp_path: Path) -> None:
    empty = str(tmp_path / "lake" / "quarantine")
    write_quarantine(empty, [])
    page = report(bronze, empty, output=tmp_path / "page.html")
    assert "Nothing has been committed to this table yet." in page.text


def test_nothing_in_a_table_becomes_markup(bronze: str, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>&\"'\x00\x1b"
    write_audit(bronze, [account(3, 0, 0, 10, topic=f'"><img src=x onerror={evil}>')])
    quarantine = str(tmp_path / "quarantine")
    write_quarantine(
        quarantine, [(evil, evil, evil, evil.encode() + b"\xff"), (evil, "</li>", "", None)]
    )
    page = report(bronze, quarantine, output=tmp_path / "page.html")
    assert not {"script", "img"} & set(page.tags)
    assert not any(name.startswith("on") for name, _ in page.attributes)
    shown = evil.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    shown = shown.replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    assert shown in page.texts
    assert f"{shown}\N{REPLACEMENT CHARACTER}" in page.texts


def test_the_page_loads_nothing(bronze: str, tmp_path: Path) -> None:
    page = report(bronze, output=tmp_path / "page.html")
    links = [value for name, value in page.attributes if name in ("src", "href", "srcset")]
    assert all(value is not None and value.startswith("#") for value in links)
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    assert not re.search(r"url\(|@import|https?:", page.html)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.html


def test_a_path_that_is_no_table_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "nothing")
    assert f"error: {path} is no Delta table" in refused(capsys, path)


def test_a_table_of_others_is_refused_with_its_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "other")
    write_deltalake(path, pa.table({"colour": ["red"]}))
    assert "no table of a Strandline job: it has the columns ['colour']" in refused(capsys, path)


def test_tables_that_hold_nothing_make_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = str(tmp_path / "bronze"), tmp_path / "page.html"
    BronzeTable.open_or_create(path)
    line = refused(capsys, path, "--output", str(output))
    assert f"{path}: nothing is committed yet" in line
    assert not output.exists()


def test_a_log_that_was_changed_by_hand_is_refused(
    bronze: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = os.path.join(bronze, "_delta_log", f"{DeltaTable(bronze).version():020}.json")
    with open(entry, encoding="utf-8") as file:
        text = file.read()
    with open(entry, "w", encoding="utf-8") as file:
        changed = re.sub(r'"rows": ?10', '"rows":"many"', text)
        assert changed != text
        file.write(changed)
    assert "is no commit that this job can account for" in refused(capsys, bronze)


@pytest.mark.parametrize(
    ("output", "said"),
    [("", "this is a folder"), ("none/page.html", "there is no folder")],
)
def test_a_place_that_takes_no_page_is_named_before_tables_are_read(
    output: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = os.path.join(str(tmp_path), output) if output else str(tmp_path)
    line = refused(capsys, "no-table-at-all", "--output", place)
    assert said in line
    assert "--output" in line


def test_a_page_that_cannot_be_written_leaves_the_one_before(
    bronze: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "page.html"
    output.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    line = refused(capsys, bronze, "--output", str(output))
    assert "No space left on device; name another file" in line
    assert output.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["lake", "page.html"]
