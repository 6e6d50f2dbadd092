"""docs/internals/storage-format.md names every file that there may be: a bit flips in each, or a
reason says why not.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from strandline_proof.sim.kinds import ALL_KINDS
from strandline_proof.sim.kinds.disks import FILES, UNSTRUCK

DOCUMENT = Path(__file__).parents[4] / "docs" / "internals" / "storage-format.md"
BASE = f"{0:020d}"
SHARED = "<any of these three, or cleaner-offset-checkpoint>"


def documented() -> list[str]:
    """First cells of the tables of data directories and of partitions' directories."""
    head, _, _ = DOCUMENT.read_text(encoding="utf-8").partition("\n## Bytes")
    rows = re.findall(r"^\| (`[^|]+) \|", head, re.MULTILINE)
    found = []
    for row in rows:
        names = re.findall(r"`([^`]+)`", row)
        begin = next((m[0] for m in [re.match(r"<base offset[^>]*>", names[0])] if m), "")
        found += [f"{begin}{name}" if n > 0 else name for n, name in enumerate(names)]
    return [name for name in found if not name.endswith(("/", "-delete", "-stray"))]


def example(name: str) -> str:
    name = name.replace(SHARED, "log-start-offset-checkpoint").replace("<n>", "0")
    return re.sub(r"<(base )?offset[^>]*>", BASE, name)


def struck_by(name: str) -> list[str]:
    return [file for file, pattern in FILES.items() if fnmatchcase(example(name), pattern)]


def test_the_tables_are_read() -> None:
    names = documented()
    assert {"meta.properties.seal", "<base offset>.timeindex", "damaged-ranges"} <= set(names)
    assert len(names) >= 20


def test_every_file_is_struck_or_says_why_not() -> None:
    for name in documented():
        assert len(struck_by(name)) == (name not in UNSTRUCK), (name, struck_by(name))


def test_what_is_struck_and_what_is_not_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = [example(name) for name in documented()]
    for file, pattern in FILES.items():
        assert any(fnmatchcase(each, pattern) for each in [*examples, *SHARED_NAMES]), file
    for name in UNSTRUCK:
        assert f"`{name}`" in text or f"`.{name.rpartition('.')[2]}`" in text, name


SHARED_NAMES = ("cleaner-offset-checkpoint",)
"""Which has no row of its own."""


def test_the_controllers_log_and_snapshots_and_the_groups_log_have_kinds_of_their_own() -> None:
    assert {"store-flip", "snapshot-flip", "offsets-flip", "bit-flip", "file-flip"} <= set(
        ALL_KINDS
    )
