"""What a start does with each file that is not what was written: the table of
docs/internals/storage-format.md, line by line.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.storage.directory.directory import DirectoryError
from support.disk import Hurried
from support.storage import SMALL, Store

DOCS = Path(__file__).parents[5] / "docs" / "internals" / "storage-format.md"
TABLE = "## When a file is not what was written"
CLEAN, UNCLEAN, REFUSED = "clean", "unclean", "refused"
EPOCH = 9
CHANGED = {
    "meta.properties": (REFUSED, UNCLEAN, CLEAN),
    "meta.properties.seal": (CLEAN, CLEAN, CLEAN),
    ".kafka_cleanshutdown": (UNCLEAN, UNCLEAN, UNCLEAN),
    "recovery-point-offset-checkpoint": (UNCLEAN, CLEAN, CLEAN),
    "log-start-offset-checkpoint": (UNCLEAN, CLEAN, CLEAN),
    "replication-offset-checkpoint": (CLEAN, CLEAN, CLEAN),
    "cleaner-offset-checkpoint": (CLEAN, CLEAN, CLEAN),
    "strandline-state": (UNCLEAN, CLEAN, CLEAN),
    "t-0/leader-epoch-checkpoint": (CLEAN, CLEAN, CLEAN),
    "t-0/partition.metadata": (CLEAN, CLEAN, CLEAN),
    "t-0/partition.metadata.seal": (CLEAN, CLEAN, CLEAN),
}
"""After a flipped bit, without the file, and with an old copy of it and its seal."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory after its second clean stop, and as the first one left it."""
    root = tmp_path_factory.mktemp("table")
    store = Store(root / "now", fs=Hurried())
    for number in range(20):
        store.append(b"%d" % number * 20)
    store.checkpoint(10)
    store.stop(epoch=5)
    shutil.copytree(root / "now", root / "old")
    store = Store(root / "now", fs=Hurried(), found=True)
    for number in range(20):
        store.append(b"%d" % number * 20, epoch=2)
    store.checkpoint(30)
    store.stop(epoch=EPOCH)
    return root / "now", root / "old"


def started(path: Path) -> str:
    """How a start ends; whatever it takes the stop for, all records are there."""
    try:
        directories = BrokerDirectories.open(
            Hurried(), [str(path)], node_id=1, cluster_id=None, new_id=lambda: b"i" * 16
        )
    except DirectoryError:
        return REFUSED
    (directory,) = directories.online
    (found,) = directory.partitions()
    log = directory.load_log(found, SMALL, directories.findings.append)
    assert (log.log_start_offset, log.log_end_offset) == (0, 40)
    assert log.damaged_ranges.entries == ()
    assert log.leader_epochs.entries == ((0, 0), (2, 20))
    assert log.checkpointed_high_watermark in (0, 20, 40)
    directories.close()
    # Another epoch is not the last one, which the controller knows (I-51).
    return CLEAN if directory.clean and directory.previous_broker_epoch == EPOCH else UNCLEAN


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_start_does(two: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    now, old = two
    flipped, missing, old_copy = CHANGED[name]

    def begun_with(data: bytes | None, *, seal: Path | None = None) -> str:
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        shutil.copytree(now, tmp_path / "data")
        file = tmp_path / "data" / name
        if data is None:
            file.unlink()
        else:
            file.write_bytes(data)
        if seal is not None and seal.exists():
            shutil.copy(seal, file.with_name(seal.name))
        return started(tmp_path / "data")

    was = (now / name).read_bytes()
    for at in range(0, len(was), max(1, len(was) // 4)):
        changed = was[:at] + bytes((was[at] ^ 1 << at % 3,)) + was[at + 1 :]
        assert begun_with(changed) == flipped, at
    assert begun_with(None) == missing
    there = old / name
    assert begun_with(there.read_bytes(), seal=there.with_name(f"{there.name}.seal")) == old_copy


def test_the_table_has_a_line_for_every_file(two: tuple[Path, Path]) -> None:
    lines = DOCS.read_text().partition(TABLE)[2].partition("\n## ")[0]
    told = " ".join(line.split("|")[1] for line in lines.splitlines() if line.startswith("|"))
    for path in two[0].rglob("*"):
        name = re.sub(r"^\d{20}", "", path.name)
        checkpoint = name.removesuffix(".seal").endswith("checkpoint")
        if path.is_file() and not (checkpoint and name.endswith(".seal")):
            assert name in told, path.name
    for name in ("damaged-ranges", "checkpoint-limit-<n>", "__cluster_metadata-0/partition"):
        assert name in told
