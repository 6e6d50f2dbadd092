"""What replicas would serve, compared at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proof.sim.oracles.replica.audit import _check_sequence, audit
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.batch import SEQUENCE_MAX, add_sequence, build_batch
from support.storage import Store

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.hosts.replica.partition import Partition


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


def numbered(*batches: tuple[int, int], compacted: bool = False) -> None:
    """A producer's batches, each of a first sequence and so many records."""
    sequences: dict[tuple[int, int], int] = {}
    for base, count in batches:
        header: Any = SimpleNamespace(
            producer_id=7,
            producer_epoch=0,
            base_sequence=base,
            last_sequence=add_sequence(base, count - 1),
            is_control=False,
            base_offset=0,
        )
        _check_sequence(sequences, header, "here", "t", compacted=compacted)


def test_sequences_follow_each_other_over_the_wrap() -> None:
    """I-59."""
    numbered((0, 3), (3, 1), (4, 2))
    numbered((SEQUENCE_MAX - 2, 3), (0, 1))
    numbered((SEQUENCE_MAX - 1, 4), (2, 1))
    numbered((SEQUENCE_MAX - 1, 1), (1, 1), compacted=True)
    for wrong in ((SEQUENCE_MAX - 1, 2), (1, 1)), ((3, 2), (3, 2)), ((0, 1), (2, 1)):
        with pytest.raises(Violation, match="must follow"):
            numbered(*wrong)
    with pytest.raises(Violation, match="must follow"):
        numbered((0, 1), (SEQUENCE_MAX, 1), compacted=True)
