"""What replicas would serve, compared at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.oracles.audit import audit
from strandline_proto.batch import build_batch
from support.storage import Store

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.hosts.partition import Partition


def replica(path: Path, batches: dict[int, tuple[bytes, bytes | None]]) -> Partition:
    """A replica of a log of which it holds these records, by offset, each in a batch."""
    log = Store(path).log
    log.gaps.expect()
    for offset, record in batches.items():
        batch = bytearray(build_batch([record], timestamp_ms=1))
        batch[:8], batch[12:16] = offset.to_bytes(8, "big"), bytes(4)
        log.append_as_follower(bytes(batch), leader_epoch=0, gaps_below=100)
    held: Any = SimpleNamespace(log=log, high_watermark=log.log_end_offset)
    partition: Partition = held
    return partition


WHOLE = {0: (b"a", b"1"), 1: (b"b", b"1"), 2: (b"a", None), 3: (b"b", b"2"), 4: (b"c", b"1")}


def test_replicas_that_are_cleaned_each_at_its_own_time_serve_the_same(tmp_path: Path) -> None:
    """I-77."""
    without_tombstone = {at: WHOLE[at] for at in (3, 4)}
    cleaned = replica(tmp_path / "2", without_tombstone)
    whole = replica(tmp_path / "1", WHOLE)
    kept = [(3, b"b", b"2"), (4, b"c", b"1")]
    assert audit(whole, "here", 0, compacted=True) == kept
    assert audit(cleaned, "here", 0, compacted=True) == kept
    assert audit(whole, "here", 0) != audit(cleaned, "here", 0, compacted=True)


def test_one_that_has_lost_the_last_value_of_a_key_does_not(tmp_path: Path) -> None:
    whole = audit(replica(tmp_path / "1", WHOLE), "here", 0, compacted=True)
    for lost in (2, 3):
        other = replica(
            tmp_path / f"without-{lost}", {at: r for at, r in WHOLE.items() if at != lost}
        )
        assert audit(other, "here", 0, compacted=True) != whole
