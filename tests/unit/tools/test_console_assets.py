"""The console's pages that are committed are those of their sources, and need no other host."""

import json
import re
import shutil
from pathlib import Path

import pytest

import console_assets
import gen_console_types


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A copy of sources and build that a test may break."""
    web, static = tmp_path / "web", tmp_path / "static"
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(console_assets.WEB, web, ignore=ignored)
    shutil.copytree(console_assets.STATIC, static)
    return web, static


def test_the_committed_pages_are_those_of_their_sources() -> None:
    assert console_assets.faults(console_assets.WEB, console_assets.STATIC) == []


def test_the_types_of_the_pages_are_those_of_the_console() -> None:
    assert gen_console_types.TARGET.read_text("utf-8") == gen_console_types.document()


@pytest.mark.parametrize("name", ["src/draw/axis.ts", "package-lock.json", "build.mjs"])
def test_a_changed_source_is_newer_than_the_pages(folders: tuple[Path, Path], name: str) -> None:
    web, static = folders
    with (web / name).open("a", encoding="utf-8") as source:
        source.write("\n")
    assert console_assets.faults(web, static) == [
        "the console's pages are older than their sources: run `make console`"
    ]


def test_a_new_source_counts(folders: tuple[Path, Path]) -> None:
    web, static = folders
    (web / "src" / "new.ts").write_text("", "utf-8")
    assert len(console_assets.faults(web, static)) == 1


def test_a_built_file_is_not_edited_by_hand(folders: tuple[Path, Path]) -> None:
    web, static = folders
    (static / "app.css").write_text("body {}", "utf-8")
    (found,) = console_assets.faults(web, static)
    assert "is not what was built" in found


def test_pages_that_are_too_large_are_refused(folders: tuple[Path, Path]) -> None:
    web, static = folders
    (static / "big.js").write_bytes(b" " * console_assets.LIMIT_BYTES)
    built = console_assets.record(web, static)
    (static / "build.json").write_text(json.dumps(built), "utf-8")
    (found,) = console_assets.faults(web, static)
    assert "the limit is 250000" in found


def test_pages_without_a_record_are_refused(folders: tuple[Path, Path]) -> None:
    web, static = folders
    (static / "build.json").unlink()
    (found,) = console_assets.faults(web, static)
    assert "make console" in found


def test_the_lock_has_hashes_and_no_addresses() -> None:
    lock = json.loads((console_assets.WEB / "package-lock.json").read_text("utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 3
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name, one in packages.items() if "integrity" not in one] == []


def test_the_page_has_nothing_that_its_policy_refuses() -> None:
    page = (console_assets.STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page
    assert re.findall(r"\son\w+=|\sstyle=", page) == []
    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []


def test_the_build_names_no_other_host() -> None:
    text = "".join(path.read_text("utf-8") for path in console_assets.assets(console_assets.STATIC))
    hosts = set(re.findall(r"https?://([\w.-]+)", text))
    assert hosts <= {"www.w3.org"}  # names of XML's namespaces
    assert re.findall(r"@import|url\((?!#)", text) == []
