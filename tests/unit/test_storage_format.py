"""The bytes that docs/storage-format.md shows are the bytes that are written."""

import re
from pathlib import Path

from strandline_broker.storage.log import LogConfig
from support.storage import Store

DOCUMENT = Path(__file__).parents[2] / "docs" / "storage-format.md"
DUMP_LINE = re.compile(r"^[0-9a-f]{8}: ((?:[0-9a-f]{2,4} ?){1,8})", re.MULTILINE)


def dumps() -> list[bytes]:
    """Each dump of the document, from the line at address zero on."""
    text = DOCUMENT.read_text("utf-8")
    found: list[bytes] = []
    for match in DUMP_LINE.finditer(text):
        line = bytes.fromhex(match[1])
        if match[0].startswith("00000000:"):
            found.append(line)
        else:
            found[-1] += line
    return found


def test_the_dumps_of_the_document_are_what_is_written(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 30, index_interval_bytes=64, segment_index_bytes=1 << 20)
    store = Store(tmp_path / "data", config)
    store.append(b"hello", epoch=3, timestamp_ms=1700000000000)
    store.append(b"high", b"water", epoch=3, timestamp_ms=1700000000250)
    store.append(b"mark", epoch=5, timestamp_ms=1700000000500)
    store.stop(epoch=12)
    written = [
        (store.log_dir / f"{0:020d}.{suffix}").read_bytes()
        for suffix in ("log", "index", "timeindex")
    ]
    assert dumps() == written
    assert (store.log_dir / "leader-epoch-checkpoint").read_text() == "0\n2\n3 0\n5 3\n"
