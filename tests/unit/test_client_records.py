"""How far an answer's batches go: only as far as they follow each other from what was asked for."""

import pytest

from strandline._records import last_of_run
from strandline_proto.batch import build_batch, prefix
from strandline_proto.errors import CorruptMessage

BATCH = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=1)


def run_of(*bases: int) -> bytes:
    """Batches of two records each."""
    return b"".join(prefix(base, len(BATCH) - 12, 0) + BATCH[16:] for base in bases)


@pytest.mark.parametrize(("asked", "bases"), [(4, (4, 6)), (5, (4,)), (3, (4, 9)), (4, (4,))])
def test_batches_from_the_one_that_was_asked_for(asked: int, bases: tuple[int, ...]) -> None:
    last = last_of_run(run_of(*bases), asked)
    assert last is not None
    assert last.base_offset == bases[-1]


@pytest.mark.parametrize(
    ("asked", "bases"), [(4, (2, 4)), (3, (5, 3, 5)), (3, (4, 5)), (3, (4, 4))]
)
def test_batches_of_another_place_are_refused(asked: int, bases: tuple[int, ...]) -> None:
    with pytest.raises(CorruptMessage, match="must follow"):
        last_of_run(run_of(*bases), asked)


def test_no_whole_batch_is_none() -> None:
    assert last_of_run(run_of(4)[:-1], 4) is None
    assert last_of_run(b"", 4) is None
